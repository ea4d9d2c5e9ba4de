/*
 * step_rig.h - a job's state machine, its clock, and what it says, as text.
 *
 * What     Each call feeds one event and writes the updates that follow to `said`, for
 *          example "1 planned; 1 assigned; assign 1 e1; ". Messages carry the epoch that
 *          the machine is in.
 */
#ifndef HYD_TESTS_LIB_STEP_RIG_H
#define HYD_TESTS_LIB_STEP_RIG_H

#include "scheduler/core/step.h"

struct step_rig {
    struct hyd_step_machine *m;
    uint64_t now_ms;
    struct hyd_error err;
    bool repeat;
    hyd_status st;
    char said[2048];
};

void step_rig_feed(struct step_rig *rig, struct hyd_step_event ev);
void step_rig_attach(struct step_rig *rig, uint32_t slot, const char *node,
                     uint32_t n_ranks);
void step_rig_beat(struct step_rig *rig, uint32_t slot, uint64_t count);
void step_rig_addresses(struct step_rig *rig, uint32_t slot);
void step_rig_ready(struct step_rig *rig, uint32_t slot);
void step_rig_submit(struct step_rig *rig, uint64_t step, uint64_t key);
void step_rig_planned(struct step_rig *rig, uint64_t step, uint32_t n_ranks);
void step_rig_report(struct step_rig *rig, uint32_t slot, uint64_t step);
void step_rig_detach(struct step_rig *rig, uint32_t slot);
void step_rig_tick(struct step_rig *rig, uint64_t ms);
/* Time goes by, with a TICK whenever the machine wants one; what it says is dropped. */
void step_rig_pass(struct step_rig *rig, uint64_t ms);
void step_rig_start(struct step_rig *rig, const struct hyd_step_config *config);
struct hyd_step_config step_rig_config(void);
void step_rig_start_ready(struct step_rig *rig, const struct hyd_step_config *config);
void step_rig_start_assigned(struct step_rig *rig,
                             const struct hyd_step_config *config);
void step_rig_stop(struct step_rig *rig);

#endif
