/* Preloaded into a node: shifts its wall clock, and lets its syncs fail or take long, as a file shared with the nemesis says.
 *
 * CLOCK_REALTIME alone is shifted; monotonic clocks, on which timers depend, are those of the machine.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    int64_t clock_shift_ns;
    int64_t sync_errno;   /* 0: syncs work */
    int64_t failed_syncs; /* how many have failed */
    int64_t sync_delay_ns;
};

static struct control none;
static volatile struct control *control = &none;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("NEMESIS_CONTROL");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *map = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED)
        control = map;
    close(file);
}

static void *next(const char *name, void **known) {
    if (!*known)
        *known = dlsym(RTLD_NEXT, name);
    return *known;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static void *known;
    int (*real)(clockid_t, struct timespec *) = next("clock_gettime", &known);
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t shifted = now->tv_sec * 1000000000LL + now->tv_nsec + control->clock_shift_ns;
        now->tv_sec = shifted / 1000000000LL;
        now->tv_nsec = shifted % 1000000000LL;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (result)
        *result = exact.tv_sec;
    return exact.tv_sec;
}

static int fails(void) {
    int64_t delay_ns = control->sync_delay_ns;
    if (delay_ns > 0) {
        struct timespec delay = {delay_ns / 1000000000LL, delay_ns % 1000000000LL};
        nanosleep(&delay, NULL);
    }
    if (!control->sync_errno)
        return 0;
    __atomic_fetch_add(&control->failed_syncs, 1, __ATOMIC_RELAXED);
    errno = (int)control->sync_errno;
    return 1;
}

#define SYNC(name, parameters, arguments)              \
    int name parameters {                              \
        static void *known;                            \
        int(*real) parameters = next(#name, &known);   \
        return fails() ? -1 : real arguments;          \
    }

SYNC(fsync, (int file), (file))
SYNC(fdatasync, (int file), (file))
SYNC(msync, (void *start, size_t length, int flags), (start, length, flags))
