/* The wall clock of a process, set by hand. Loaded with LD_PRELOAD before the C library; `wall_clock.py`
 * builds and sets it. Knows nothing of brokers. Only CLOCK_REALTIME stands still: timeouts and waits go
 * by CLOCK_MONOTONIC, which the kernel counts too, and must not be changed behind its back. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Unix ms; negative: the machine's clock. */
static _Atomic int64_t wall_ms = -1;

void set_wall_clock_ms(int64_t now_ms) { atomic_store(&wall_ms, now_ms); }

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int64_t now_ms = atomic_load(&wall_ms);
    if (now_ms >= 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        at->tv_sec = now_ms / 1000;
        at->tv_nsec = now_ms % 1000 * 1000000;
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, at);
}
