/* A wall clock that a test sets while a program runs, preloaded into it: the seconds in the file
 * CLOCK_FILE, eight bytes, are added to the time of day.  Waits of C11's threads, which are librdkafka's,
 * end by that clock, as the kernel's end by its own: also where it is set while they last. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_NS = 20000000, SECOND_NS = 1000000000 };

static const _Atomic int64_t unset;
static const _Atomic int64_t *seconds = &unset;
static int (*wait_until)(cnd_t *, mtx_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    wait_until = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    const char *path = getenv("CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        abort();
    seconds = memory;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        time->tv_sec += atomic_load(seconds);
    return result;
}

int timespec_get(struct timespec *time, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}

int cnd_timedwait(cnd_t *condition, mtx_t *lock, const struct timespec *until)
{
    for (;;) {
        struct timespec now, real;
        clock_gettime(CLOCK_REALTIME, &now);
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
        int64_t left = (int64_t)(until->tv_sec - now.tv_sec) * SECOND_NS + until->tv_nsec - now.tv_nsec;
        int64_t slice = left < 0 ? 0 : left < SLICE_NS ? left : SLICE_NS;
        real.tv_nsec += slice;
        real.tv_sec += real.tv_nsec / SECOND_NS;
        real.tv_nsec %= SECOND_NS;
        int result = wait_until(condition, lock, &real);
        if (result != thrd_timedout || slice == left || left < 0)
            return result;
    }
}
