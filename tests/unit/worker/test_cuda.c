/* The CUDA backend's host side over a fake card: what it says of the machine, memory that is
 * refused, waiting, whom seconds are charged to, a device that fails. The ops themselves:
 * conform.compute_fake; the kernels: conform.cuda_emulated. */
#include <poll.h>
#include <string.h>

#include "tests/fake_gpu/fake_gpu.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"
#include "worker/compute/compute.h"

extern const struct hyd_compute_ops hyd_compute_cuda;

static const struct hyd_compute_ops *const cuda = &hyd_compute_cuda;

static int reset(void **state)
{
    (void)state;
    fake_gpu_reset();
    return 0;
}

static struct hyd_compute *open_device(void)
{
    const struct hyd_compute_config config = {.device = 0};
    struct hyd_compute *dev = NULL;
    struct hyd_error err = {.text = ""};

    if (cuda->open(&config, &dev, &err) != HYD_OK) {
        fail_msg("%s", err.text);
    }
    return dev;
}

static void probe_says_what_is_missing(void **state)
{
    static const struct {
        struct fake_gpu_card card;
        hyd_status status;
        const char *says;
    } item[] = {
        {{.driver = 13000, .runtime = 13000, .n_devices = 1, .major = 8}, HYD_OK, ""},
        {{.driver = 0, .runtime = 13000}, HYD_ERR_UNAVAILABLE, "no NVIDIA driver"},
        {{.driver = 12040, .runtime = 13000, .n_devices = 1, .major = 9},
         HYD_ERR_UNAVAILABLE,
         "the driver speaks CUDA 12.4, this build needs 13.0"},
        {{.driver = 13000, .runtime = 13000}, HYD_ERR_UNAVAILABLE, "no CUDA device"},
        {{.driver = 13000, .runtime = 13000, .n_devices = 1, .major = 7, .minor = 5},
         HYD_ERR_UNSUPPORTED,
         "compute capability 7.5, the kernels need 8.0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof item / sizeof *item; i++) {
        struct hyd_error err = {.text = ""};

        fake_gpu_set_card(&item[i].card);
        assert_int_equal(cuda->probe(&err), item[i].status);
        assert_non_null(strstr(err.text, item[i].says));
    }
}

static void open_names_a_device_that_is_not_there(void **state)
{
    const struct hyd_compute_config config = {.device = 99};
    struct hyd_compute *dev = NULL;
    struct hyd_error err = {.text = ""};

    (void)state;
    assert_int_equal(cuda->open(&config, &dev, &err), HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "CUDA device 99"));
    assert_int_equal(fake_gpu_left(), 0);
}

static void open_gives_everything_back_when_it_fails(void **state)
{
    struct fake_gpu_card card = fake_gpu_card();
    struct hyd_compute *dev = NULL;
    struct hyd_error err = {.text = ""};
    struct hyd_fault_alloc alloc;

    (void)state;
    card.broken = cudaErrorIllegalAddress; /* found when kernels are prepared */
    fake_gpu_set_card(&card);
    hyd_fault_alloc_init(&alloc);
    assert_int_equal(
        cuda->open(&(struct hyd_compute_config){.alloc = &alloc.alloc}, &dev, &err),
        HYD_ERR_INTERNAL);
    assert_int_equal(alloc.live, 0);
    assert_int_equal(fake_gpu_left(), 0);
}

static void refused_memory_is_described_with_sizes(void **state)
{
    struct fake_gpu_card card = fake_gpu_card();
    struct hyd_compute *dev = NULL;
    struct hyd_buf buf = {0}, more = {0};

    (void)state;
    card.bytes = (size_t)3 << 29; /* 1.5 GiB */
    fake_gpu_set_card(&card);
    dev = open_device();
    assert_int_equal(cuda->mem_alloc(dev, (size_t)1 << 20, &buf), HYD_OK);
    assert_int_equal(cuda->mem_alloc(dev, (size_t)5 << 29, &more), HYD_ERR_NO_MEMORY);
    assert_null(more.at);
    assert_non_null(strstr(cuda->describe(dev),
                           "1.50 GiB of it free when 2.50 GiB were asked for"));
    assert_int_equal(cuda->mem_alloc(dev, 64, &more), HYD_OK);
    assert_null(strstr(cuda->describe(dev), "asked for"));
    cuda->mem_free(dev, &more);
    cuda->mem_free(dev, &buf);
    cuda->mem_free(dev, &buf); /* freed is fine */
    cuda->close(dev);
    assert_int_equal(fake_gpu_left(), 0);
}

/* Cards of 8.6 and 8.9 have 99 KiB for a block: smaller blocks run there. */
static void shapes_that_need_too_much_shared_memory_are_refused(void **state)
{
    static const uint32_t sizes[] = {64, 80, 96, 128, 192, 256};
    struct hyd_attn_shape shape = {.dtype = HYD_DTYPE_BF16,
                                   .d = 64,
                                   .n_heads = 2,
                                   .n_kv_heads = 1,
                                   .heads_per_kv = 2,
                                   .scale = 1.0F};
    struct fake_gpu_card card = fake_gpu_card();
    struct hyd_error err = {.text = ""};
    struct hyd_compute *dev = NULL;

    (void)state;
    card.minor = 6;
    card.shared_bytes = 99 << 10;
    fake_gpu_set_card(&card);
    dev = open_device();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        shape.d = sizes[i];
        assert_int_equal(cuda->supports(dev, &shape, &err), HYD_OK);
    }
    cuda->close(dev);
    card.shared_bytes = 64 << 10;
    fake_gpu_set_card(&card);
    dev = open_device();
    shape.d = 64;
    assert_int_equal(cuda->supports(dev, &shape, &err), HYD_ERR_UNSUPPORTED);
    shape.d = 256;
    assert_int_equal(cuda->supports(dev, &shape, &err), HYD_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "head size 256"));
    assert_non_null(strstr(err.text, "this card has 65536"));
    shape.dtype = HYD_DTYPE_F32;
    assert_int_equal(cuda->supports(dev, &shape, &err), HYD_OK);
    cuda->close(dev);
}

/* What arm_fd gives becomes readable when the queue is empty, and -1 says it is. */
static void the_descriptor_tells_when_the_device_is_done(void **state)
{
    struct hyd_compute *dev = open_device();
    struct hyd_buf buf = {0};
    bool done = false;

    (void)state;
    assert_int_equal(cuda->mem_alloc(dev, 4096, &buf), HYD_OK);
    for (int round = 0; round < 50; round++) {
        int fd = -1;

        for (int i = 0; i < 10; i++) {
            assert_int_equal(cuda->zero(dev, buf), HYD_OK);
        }
        done = false;
        while (!done) {
            assert_int_equal(cuda->arm_fd(dev, &fd), HYD_OK);
            if (fd >= 0) {
                struct pollfd wait = {.fd = fd, .events = POLLIN};

                assert_int_equal(poll(&wait, 1, 20000), 1);
            }
            assert_int_equal(cuda->test(dev, &done, NULL), HYD_OK);
        }
    }
    assert_int_equal(cuda->arm_fd(dev, &(int){0}), HYD_OK);
    cuda->mem_free(dev, &buf);
    cuda->close(dev);
    assert_int_equal(fake_gpu_left(), 0);
}

/* More ops in flight than a clock has spans; each is charged to whom was named when it was
 * enqueued, whenever it ends. */
static void seconds_go_to_whom_they_were_charged_when_enqueued(void **state)
{
    struct hyd_compute *dev = open_device();
    double spent_s[3][2] = {{0.0}};
    struct hyd_buf buf = {0};
    double all_s;

    (void)state;
    assert_int_equal(cuda->mem_alloc(dev, 1 << 16, &buf), HYD_OK);
    for (int i = 0; i < 600; i++) {
        cuda->charge(dev, &spent_s[i % 2][0], &spent_s[i % 2][1]);
        assert_int_equal(cuda->zero(dev, buf), HYD_OK);
    }
    cuda->charge(dev, NULL, NULL);
    assert_int_equal(cuda->zero(dev, buf), HYD_OK);
    assert_int_equal(cuda->sync(dev, NULL), HYD_OK);
    all_s = cuda->copy_s(dev);
    assert_true(spent_s[0][1] > 0.0 && spent_s[1][1] > 0.0);
    assert_true(spent_s[0][1] + spent_s[1][1] < all_s);
    assert_true(spent_s[0][0] == 0.0 && spent_s[1][0] == 0.0);
    assert_true(cuda->compute_s(dev) == 0.0);
    cuda->mem_free(dev, &buf);
    cuda->close(dev);
}

/* A kernel that reads 16 bytes from an odd place ends the context for good. */
static void tensors_at_odd_places_are_refused(void **state)
{
    const struct hyd_attn_unit unit = {{0, 8, 0}, {{0, 8, 0}}, 1};
    struct hyd_compute *dev = open_device();
    struct hyd_buf all = {0};
    struct hyd_attn_forward args = {.shape = {.dtype = HYD_DTYPE_BF16,
                                              .d = 64,
                                              .n_heads = 1,
                                              .n_kv_heads = 1,
                                              .heads_per_kv = 1,
                                              .scale = 1.0F},
                                    .unit = &unit,
                                    .n_units = 1,
                                    .lse_stride = 8,
                                    .first = true};
    struct hyd_buf *const in[] = {&args.q, &args.k, &args.v};

    (void)state;
    assert_int_equal(cuda->mem_alloc(dev, 1 << 16, &all), HYD_OK);
    assert_int_equal(cuda->zero(dev, all), HYD_OK);
    for (size_t i = 0; i < 3; i++) {
        *in[i] = hyd_buf_part(all, i << 12, 1 << 12);
    }
    args.o_acc = hyd_buf_part(all, 1 << 14, 1 << 12);
    args.lse = hyd_buf_part(all, 1 << 15, 1 << 12);
    assert_int_equal(cuda->attn_forward(dev, &args), HYD_OK);
    for (size_t i = 0; i < 3; i++) {
        const struct hyd_buf was = *in[i];

        *in[i] = hyd_buf_part(all, (i << 12) + 8, 1 << 12);
        assert_int_equal(cuda->attn_forward(dev, &args), HYD_ERR_INVALID);
        *in[i] = was;
    }
    args.o_acc = hyd_buf_part(all, (1 << 14) + 4, 1 << 12);
    assert_int_equal(cuda->attn_forward(dev, &args), HYD_ERR_INVALID);
    assert_int_equal(cuda->sync(dev, NULL), HYD_OK);
    cuda->mem_free(dev, &all);
    cuda->close(dev);
    assert_int_equal(fake_gpu_left(), 0);
}

/* CUDA calls no host function behind work that failed: who sleeps is woken all the same. */
static void a_failed_device_wakes_who_waits_for_it(void **state)
{
    struct fake_gpu_card card = fake_gpu_card();
    struct hyd_compute *dev = open_device();
    struct hyd_buf buf = {0};
    struct pollfd wait = {.fd = -1, .events = POLLIN};
    bool done = false;

    (void)state;
    assert_int_equal(cuda->mem_alloc(dev, 64, &buf), HYD_OK);
    card.stalled = true;
    fake_gpu_set_card(&card);
    assert_int_equal(cuda->zero(dev, buf), HYD_OK);
    assert_int_equal(cuda->test(dev, &done, NULL), HYD_OK);
    assert_false(done);
    assert_int_equal(cuda->arm_fd(dev, &wait.fd), HYD_OK);
    assert_true(wait.fd >= 0);
    assert_int_equal(cudaGetLastError(), cudaSuccess); /* not ready is none */
    card.stalled = false;
    card.broken = cudaErrorIllegalAddress;
    fake_gpu_set_card(&card);
    assert_int_equal(poll(&wait, 1, 20000), 1);
    assert_int_equal(cuda->test(dev, &done, NULL), HYD_ERR_INTERNAL);
    cuda->mem_free(dev, &buf);
    cuda->close(dev);
    assert_int_equal(fake_gpu_left(), 0);
}

/* `auto` on a machine whose driver is older than this build: the CPU, and why. */
static void an_old_driver_means_the_cpu(void **state)
{
    struct fake_gpu_card card = fake_gpu_card();
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_error err = {.text = ""};

    (void)state;
    assert_int_equal(hyd_compute_find("auto", &ops, NULL), HYD_OK);
    assert_string_equal(ops->name, "cuda");
    card.driver = 12040;
    fake_gpu_set_card(&card);
    assert_int_equal(hyd_compute_find("auto", &ops, NULL), HYD_OK);
    assert_string_equal(ops->name, "cpu");
    assert_int_equal(hyd_compute_find("cuda", &ops, &err), HYD_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text,
                           "compute 'cuda': the driver speaks CUDA 12.4, this "
                           "build needs 13.0"));
}

static void a_failed_device_says_so_and_forgets_whom_it_charges(void **state)
{
    struct fake_gpu_card card = fake_gpu_card();
    struct hyd_compute *dev = open_device();
    struct hyd_error err = {.text = ""};
    struct hyd_buf buf = {0};
    bool done = false;

    (void)state;
    assert_int_equal(cuda->mem_alloc(dev, 64, &buf), HYD_OK);
    {
        double gone_s[2] = {0.0, 0.0};

        cuda->charge(dev, &gone_s[0], &gone_s[1]);
        assert_int_equal(cuda->zero(dev, buf), HYD_OK);
        card.broken = cudaErrorIllegalAddress;
        fake_gpu_set_card(&card);
        assert_int_equal(cuda->sync(dev, &err), HYD_ERR_INTERNAL);
        assert_string_equal(err.text,
                            "the CUDA device failed: an illegal memory access");
        gone_s[0] = gone_s[1] = 42.0;
        (void)cuda->copy_s(dev);
        assert_true(gone_s[1] == 42.0);
    }
    assert_int_equal(cuda->test(dev, &done, &err), HYD_ERR_INTERNAL);
    assert_false(done);
    cuda->mem_free(dev, &buf);
    cuda->close(dev);
    assert_int_equal(fake_gpu_left(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(probe_says_what_is_missing, reset),
        cmocka_unit_test_setup(open_names_a_device_that_is_not_there, reset),
        cmocka_unit_test_setup(open_gives_everything_back_when_it_fails, reset),
        cmocka_unit_test_setup(refused_memory_is_described_with_sizes, reset),
        cmocka_unit_test_setup(shapes_that_need_too_much_shared_memory_are_refused,
                               reset),
        cmocka_unit_test_setup(the_descriptor_tells_when_the_device_is_done, reset),
        cmocka_unit_test_setup(seconds_go_to_whom_they_were_charged_when_enqueued,
                               reset),
        cmocka_unit_test_setup(a_failed_device_says_so_and_forgets_whom_it_charges,
                               reset),
        cmocka_unit_test_setup(a_failed_device_wakes_who_waits_for_it, reset),
        cmocka_unit_test_setup(tensors_at_odd_places_are_refused, reset),
        cmocka_unit_test_setup(an_old_driver_means_the_cpu, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
