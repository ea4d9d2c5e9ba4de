/* fuzz_config.c - no hydra.conf may hurt: it is read, or refused in one line with text. */
#include <string.h>

#include "common/sys/config.h"
#include "scheduler/daemon/settings.h"
#include "tests/lib/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct hyd_daemon_settings settings = {0};
    struct hyd_fault_alloc fault;
    struct hyd_config *config = NULL;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;

    hyd_fuzz_begin(&fault, data, n_bytes);
    st = hyd_config_create(&fault.alloc, hyd_daemon_setting_table,
                           hyd_daemon_setting_count, &settings, &config, &err);
    if (st == HYD_OK) {
        st = hyd_config_text(config, "hydra.conf", (const char *)data, n_bytes, &err);
        hyd_fuzz_check(st == HYD_OK || st == HYD_ERR_NO_MEMORY || err.text[0] != '\0',
                       "a refusal without a text");
        hyd_fuzz_check(strchr(err.text, '\n') == NULL, "a refusal of several lines");
        (void)hyd_daemon_step_config(&settings);
    }
    hyd_config_free(config);
    hyd_fuzz_end(&fault);
    return 0;
}
