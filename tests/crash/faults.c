/*
 * Faults for a process that keeps files: dies at a chosen call, sees a chosen call fail, or notes what a power cut
 * would leave. Loaded with LD_PRELOAD (Linux, glibc); acts only on paths below $HB_FAULT_HOME.
 *
 * Counted are the calls that change what is on disk, each of one kind:
 *     write     write pwrite writev pwritev pwritev2        sync     fsync fdatasync
 *     rename    rename renameat renameat2                   unlink   unlink unlinkat rmdir
 *     link      link linkat symlink symlinkat               truncate ftruncate truncate
 *     create    open openat creat with O_CREAT, mkdir mkdirat
 * and, only when asked for by its name,
 *     open      every other open                            inotify  inotify_init inotify_init1 inotify_add_watch
 * `-shm` files are no state and are never counted.
 *
 * Death:     HB_KILL_AT=n        SIGKILL at the n-th call (from 1)
 *            HB_KILL_WHEN=       before | after | torn (a write: after half of it; else: after)
 *            HB_KILL_KIND=a,b    count only these kinds;   HB_KILL_PATH=x  only paths with x in them
 * Failure:   HB_FAIL_AT=n        the n-th call fails and so does every later one
 *            HB_FAIL_ERRNO=28    with this errno; 0: a write takes half of its bytes and says so
 *            HB_FAIL_ONCE=1      only the n-th;   HB_FAIL_KIND, HB_FAIL_PATH as above
 *            HB_FAIL_WHILE=file  only while this file exists: a fault that begins and passes
 * Clock:     HB_CLOCK=file       its number of seconds is added to the wall clock; file systems keep their own
 * Power cut: HB_SHADOW=folder    at every sync the file's bytes go to <folder>/<device>-<inode>, in one step;
 *                                the sync itself is left out
 * HB_FAULT_LOG=file              one line for each call that was struck: number, kind, path;
 * HB_FAULT_TRACE=1               for every counted call.
 *
 * hb_arm() reads the environment again and counts from 1: for a process made by fork.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum when { BEFORE, AFTER, TORN };

struct rule {
    long at;
    char kinds[128];
    char path[256];
    atomic_long count;
};

static struct {
    char home[PATH_MAX];
    size_t home_length;
    struct rule kill, fail;
    enum when when;
    int fail_errno;
    int is_once, is_traced;
    char fails_while[PATH_MAX];
    char clock[PATH_MAX];
    char shadow[PATH_MAX];
    char log[PATH_MAX];
} armed;

/* What to do with one call. */
struct verdict {
    int fails;   /* with `fail_errno`, or by half when that is 0 */
    int dies;    /* at `armed.when` */
};

static void copy_variable(char *to, size_t size, const char *name) {
    const char *value = getenv(name);
    snprintf(to, size, "%s", value ? value : "");
}

static long number_variable(const char *name) {
    const char *value = getenv(name);
    return value ? atol(value) : 0;
}

static void read_rule(struct rule *rule, const char *at, const char *kind, const char *path) {
    rule->at = number_variable(at);
    copy_variable(rule->kinds, sizeof rule->kinds, kind);
    copy_variable(rule->path, sizeof rule->path, path);
    atomic_store(&rule->count, 0);
}

__attribute__((constructor)) void hb_arm(void) {
    const char *when = getenv("HB_KILL_WHEN");
    copy_variable(armed.home, sizeof armed.home, "HB_FAULT_HOME");
    armed.home_length = strlen(armed.home);
    read_rule(&armed.kill, "HB_KILL_AT", "HB_KILL_KIND", "HB_KILL_PATH");
    read_rule(&armed.fail, "HB_FAIL_AT", "HB_FAIL_KIND", "HB_FAIL_PATH");
    armed.when = !when ? BEFORE : !strcmp(when, "after") ? AFTER : !strcmp(when, "torn") ? TORN : BEFORE;
    armed.fail_errno = (int)number_variable("HB_FAIL_ERRNO");
    armed.is_once = number_variable("HB_FAIL_ONCE") != 0;
    armed.is_traced = number_variable("HB_FAULT_TRACE") != 0;
    copy_variable(armed.fails_while, sizeof armed.fails_while, "HB_FAIL_WHILE");
    copy_variable(armed.clock, sizeof armed.clock, "HB_CLOCK");
    copy_variable(armed.shadow, sizeof armed.shadow, "HB_SHADOW");
    copy_variable(armed.log, sizeof armed.log, "HB_FAULT_LOG");
}

/* ---------------------------------------------------------------------------------------------------------- paths */

/* Both leave "" in `path` when there is none, and errno as it was. */
static void path_of_fd(int fd, char *path) {
    char name[64];
    int saved = errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, name, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    errno = saved;
}

static void path_at(int folder, const char *name, char *path) {
    char base[PATH_MAX];
    int saved = errno;
    if (!name || name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name ? name : "");
    } else {
        if (folder == AT_FDCWD) {
            long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", base, PATH_MAX - 1);
            base[length > 0 ? length : 0] = 0;
        } else {
            path_of_fd(folder, base);
        }
        if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX)
            path[0] = 0;
    }
    errno = saved;
}

static int is_ours(const char *path) {
    size_t length = strlen(path);
    if (!armed.home_length || strncmp(path, armed.home, armed.home_length) || path[armed.home_length] != '/')
        return 0;
    return length < 4 || strcmp(path + length - 4, "-shm");
}

/* --------------------------------------------------------------------------------------------------------- verdict */

static void note(long number, const char *kind, const char *path) {
    char line[PATH_MAX + 64];
    if (!armed.log[0])
        return;
    int length = snprintf(line, sizeof line, "%ld %s %s\n", number, kind, path + armed.home_length + 1);
    long fd = syscall(SYS_openat, AT_FDCWD, armed.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, (size_t)length);
        syscall(SYS_close, fd);
    }
}

static int is_listed(const char *kinds, const char *kind) {
    size_t length = strlen(kind);
    if (!kinds[0])
        return strcmp(kind, "open") && strcmp(kind, "inotify");
    for (const char *at = kinds; (at = strstr(at, kind)); at += length)
        if ((at == kinds || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return 1;
    return 0;
}

static int matches(const struct rule *rule, const char *kind, const char *path) {
    return is_listed(rule->kinds, kind) && (!rule->path[0] || strstr(path + armed.home_length, rule->path));
}

static _Noreturn void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;)
        pause();
}

static int is_failing_now(void) {
    return !armed.fails_while[0] || !syscall(SYS_faccessat, AT_FDCWD, armed.fails_while, F_OK);
}

static struct verdict judge(const char *kind, const char *path) {
    struct verdict verdict = {0, 0};
    int saved = errno;
    if (!is_ours(path))
        return verdict;
    long number = 0;
    if (matches(&armed.kill, kind, path)) {
        number = atomic_fetch_add(&armed.kill.count, 1) + 1;
        verdict.dies = number == armed.kill.at;
    }
    if (armed.fail.at && is_failing_now() && matches(&armed.fail, kind, path)) {
        long failing = atomic_fetch_add(&armed.fail.count, 1) + 1;
        verdict.fails = armed.is_once ? failing == armed.fail.at : failing >= armed.fail.at;
    }
    if (verdict.dies || verdict.fails || (armed.is_traced && number))
        note(number, kind, path);
    if (verdict.dies && armed.when == BEFORE)
        die();
    errno = saved;
    return verdict;
}

#define REAL(name) ((__typeof__(&name))real_(&name##_address, #name))
static void *real_(void **address, const char *name) {
    if (!*address)
        *address = dlsym(RTLD_NEXT, name);
    return *address;
}

/* The calls that need no more than: judged, made, perhaps the last one. */
#define CALL(kind, path, call)                                                                                         \
    do {                                                                                                               \
        struct verdict verdict = judge(kind, path);                                                                    \
        if (verdict.fails) {                                                                                           \
            errno = armed.fail_errno ? armed.fail_errno : EIO;                                                         \
            return -1;                                                                                                 \
        }                                                                                                              \
        __typeof__(call) result = call;                                                                                \
        if (verdict.dies)                                                                                              \
            die();                                                                                                     \
        return result;                                                                                                 \
    } while (0)

/* ----------------------------------------------------------------------------------------------------------- write */

static size_t halved(size_t length) {
    return length > 1 ? length / 2 : length;
}

#define WRITE(fd, length, whole, half)                                                                                 \
    do {                                                                                                               \
        char path[PATH_MAX];                                                                                           \
        path_of_fd(fd, path);                                                                                          \
        struct verdict verdict = judge("write", path);                                                                 \
        if (verdict.fails) {                                                                                           \
            if (!armed.fail_errno)                                                                                     \
                return half;                                                                                           \
            errno = armed.fail_errno;                                                                                  \
            return -1;                                                                                                 \
        }                                                                                                              \
        ssize_t result = verdict.dies && armed.when == TORN ? half : whole;                                            \
        if (verdict.dies)                                                                                              \
            die();                                                                                                     \
        return result;                                                                                                 \
    } while (0)

static void *write_address, *pwrite_address, *pwrite64_address, *writev_address, *pwritev_address, *pwritev64_address,
    *pwritev2_address, *pwritev64v2_address;

ssize_t write(int fd, const void *data, size_t length) {
    WRITE(fd, length, REAL(write)(fd, data, length), REAL(write)(fd, data, halved(length)));
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    WRITE(fd, length, REAL(pwrite)(fd, data, length, at), REAL(pwrite)(fd, data, halved(length), at));
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    WRITE(fd, length, REAL(pwrite64)(fd, data, length, at), REAL(pwrite64)(fd, data, halved(length), at));
}

/* Half of a vector is half of its first part. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    WRITE(fd, 0, REAL(writev)(fd, parts, count), REAL(write)(fd, parts[0].iov_base, halved(parts[0].iov_len)));
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    WRITE(fd, 0, REAL(pwritev)(fd, parts, count, at),
          REAL(pwrite)(fd, parts[0].iov_base, halved(parts[0].iov_len), at));
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    WRITE(fd, 0, REAL(pwritev64)(fd, parts, count, at),
          REAL(pwrite64)(fd, parts[0].iov_base, halved(parts[0].iov_len), at));
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    WRITE(fd, 0, REAL(pwritev2)(fd, parts, count, at, flags),
          REAL(pwrite)(fd, parts[0].iov_base, halved(parts[0].iov_len), at));
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    WRITE(fd, 0, REAL(pwritev64v2)(fd, parts, count, at, flags),
          REAL(pwrite64)(fd, parts[0].iov_base, halved(parts[0].iov_len), at));
}

/* ------------------------------------------------------------------------------------------------------------ sync */

static void *fsync_address, *fdatasync_address;

static void shadow_name(char *name, const struct stat *status) {
    snprintf(name, PATH_MAX, "%.3000s/%lx-%lx", armed.shadow, (unsigned long)status->st_dev,
             (unsigned long)status->st_ino);
}

/* Keep the bytes that a power cut can no longer take. */
static int shadow(int fd) {
    static atomic_long serial;
    struct stat status;
    char name[PATH_MAX], temporary[PATH_MAX], self[64], block[65536];
    if (fstat(fd, &status) || !S_ISREG(status.st_mode))
        return 0;
    shadow_name(name, &status);
    snprintf(temporary, sizeof temporary, "%.3000s/.%ld-%ld", armed.shadow, (long)getpid(),
             atomic_fetch_add(&serial, 1));
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    long from = syscall(SYS_openat, AT_FDCWD, self, O_RDONLY | O_CLOEXEC, 0);
    long to = syscall(SYS_openat, AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (from < 0 || to < 0)
        abort(); /* a simulation with holes proves nothing */
    long at = 0, length;
    while ((length = syscall(SYS_pread64, from, block, sizeof block, at)) > 0) {
        if (syscall(SYS_write, to, block, (size_t)length) != length)
            abort();
        at += length;
    }
    syscall(SYS_close, from);
    syscall(SYS_close, to);
    if (length < 0 || syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, name, 0))
        abort();
    return 0;
}

/* Remember the inode behind a name that is about to go; its number will be used again. */
static int is_last_name(int folder, const char *name, struct stat *status) {
    int saved = errno;
    int is_last = armed.shadow[0] && !fstatat(folder, name, status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status->st_mode) &&
                  status->st_nlink == 1;
    errno = saved;
    return is_last;
}

static void forget(const struct stat *status) {
    char name[PATH_MAX];
    int saved = errno;
    shadow_name(name, status);
    syscall(SYS_unlinkat, AT_FDCWD, name, 0);
    errno = saved;
}

int fsync(int fd) {
    char path[PATH_MAX];
    path_of_fd(fd, path);
    CALL("sync", path, (armed.shadow[0] && is_ours(path)) ? shadow(fd) : REAL(fsync)(fd));
}

int fdatasync(int fd) {
    char path[PATH_MAX];
    path_of_fd(fd, path);
    CALL("sync", path, (armed.shadow[0] && is_ours(path)) ? shadow(fd) : REAL(fdatasync)(fd));
}

/* ----------------------------------------------------------------------------------------------------------- names */

static void *rename_address, *renameat_address, *renameat2_address, *unlink_address, *unlinkat_address, *rmdir_address,
    *link_address, *linkat_address, *symlink_address, *symlinkat_address, *mkdir_address, *mkdirat_address;

static int renamed(int to_folder, const char *to, int (*call)(void *), void *arguments, const char *path) {
    struct verdict verdict = judge("rename", path);
    if (verdict.fails) {
        errno = armed.fail_errno ? armed.fail_errno : EIO;
        return -1;
    }
    struct stat status;
    int is_last = is_ours(path) && is_last_name(to_folder, to, &status);
    int result = call(arguments);
    if (!result && is_last)
        forget(&status);
    if (verdict.dies)
        die();
    return result;
}

struct rename_arguments {
    int from_folder, to_folder;
    const char *from, *to;
    unsigned flags;
};

static int call_rename(void *given) {
    struct rename_arguments *a = given;
    return REAL(rename)(a->from, a->to);
}

static int call_renameat(void *given) {
    struct rename_arguments *a = given;
    return REAL(renameat)(a->from_folder, a->from, a->to_folder, a->to);
}

static int call_renameat2(void *given) {
    struct rename_arguments *a = given;
    return REAL(renameat2)(a->from_folder, a->from, a->to_folder, a->to, a->flags);
}

int rename(const char *from, const char *to) {
    char path[PATH_MAX];
    struct rename_arguments arguments = {AT_FDCWD, AT_FDCWD, from, to, 0};
    path_at(AT_FDCWD, to, path);
    return renamed(AT_FDCWD, to, call_rename, &arguments, path);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    char path[PATH_MAX];
    struct rename_arguments arguments = {from_folder, to_folder, from, to, 0};
    path_at(to_folder, to, path);
    return renamed(to_folder, to, call_renameat, &arguments, path);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char path[PATH_MAX];
    struct rename_arguments arguments = {from_folder, to_folder, from, to, flags};
    path_at(to_folder, to, path);
    return renamed(to_folder, to, call_renameat2, &arguments, path);
}

static int unlinked(int folder, const char *name, int flags, int is_plain) {
    char path[PATH_MAX];
    path_at(folder, name, path);
    struct verdict verdict = judge("unlink", path);
    if (verdict.fails) {
        errno = armed.fail_errno ? armed.fail_errno : EIO;
        return -1;
    }
    struct stat status;
    int is_last = is_ours(path) && is_last_name(folder, name, &status);
    int result = is_plain ? REAL(unlink)(name) : REAL(unlinkat)(folder, name, flags);
    if (!result && is_last)
        forget(&status);
    if (verdict.dies)
        die();
    return result;
}

int unlink(const char *name) {
    return unlinked(AT_FDCWD, name, 0, 1);
}

int unlinkat(int folder, const char *name, int flags) {
    return unlinked(folder, name, flags, 0);
}

int rmdir(const char *name) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("unlink", path, REAL(rmdir)(name));
}

int link(const char *from, const char *to) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, to, path);
    CALL("link", path, REAL(link)(from, to));
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char path[PATH_MAX];
    path_at(to_folder, to, path);
    CALL("link", path, REAL(linkat)(from_folder, from, to_folder, to, flags));
}

int symlink(const char *target, const char *name) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("link", path, REAL(symlink)(target, name));
}

int symlinkat(const char *target, int folder, const char *name) {
    char path[PATH_MAX];
    path_at(folder, name, path);
    CALL("link", path, REAL(symlinkat)(target, folder, name));
}

int mkdir(const char *name, mode_t mode) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("create", path, REAL(mkdir)(name, mode));
}

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    path_at(folder, name, path);
    CALL("create", path, REAL(mkdirat)(folder, name, mode));
}

/* -------------------------------------------------------------------------------------------------- truncate, open */

static void *ftruncate_address, *ftruncate64_address, *truncate_address, *truncate64_address, *open_address,
    *open64_address, *openat_address, *openat64_address, *creat_address, *creat64_address;

int ftruncate(int fd, off_t length) {
    char path[PATH_MAX];
    path_of_fd(fd, path);
    CALL("truncate", path, REAL(ftruncate)(fd, length));
}

int ftruncate64(int fd, off64_t length) {
    char path[PATH_MAX];
    path_of_fd(fd, path);
    CALL("truncate", path, REAL(ftruncate64)(fd, length));
}

int truncate(const char *name, off_t length) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("truncate", path, REAL(truncate)(name, length));
}

int truncate64(const char *name, off64_t length) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("truncate", path, REAL(truncate64)(name, length));
}

static mode_t mode_of(int flags, va_list list) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define OPEN(folder, name, flags, call)                                                                                \
    char path[PATH_MAX];                                                                                               \
    va_list list;                                                                                                      \
    va_start(list, flags);                                                                                             \
    mode_t mode = mode_of(flags, list);                                                                                \
    va_end(list);                                                                                                      \
    path_at(folder, name, path);                                                                                       \
    CALL(flags & O_CREAT ? "create" : "open", path, call)

int open(const char *name, int flags, ...) {
    OPEN(AT_FDCWD, name, flags, REAL(open)(name, flags, mode));
}

int open64(const char *name, int flags, ...) {
    OPEN(AT_FDCWD, name, flags, REAL(open64)(name, flags, mode));
}

int openat(int folder, const char *name, int flags, ...) {
    OPEN(folder, name, flags, REAL(openat)(folder, name, flags, mode));
}

int openat64(int folder, const char *name, int flags, ...) {
    OPEN(folder, name, flags, REAL(openat64)(folder, name, flags, mode));
}

int creat(const char *name, mode_t mode) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("create", path, REAL(creat)(name, mode));
}

int creat64(const char *name, mode_t mode) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("create", path, REAL(creat64)(name, mode));
}

/* --------------------------------------------------------------------------------------------------------- inotify */

static void *inotify_init_address, *inotify_init1_address, *inotify_add_watch_address;

#define NOWHERE                                                                                                        \
    char path[PATH_MAX];                                                                                               \
    snprintf(path, sizeof path, "%.4000s/", armed.home)

int inotify_init(void) {
    NOWHERE;
    CALL("inotify", path, REAL(inotify_init)());
}

int inotify_init1(int flags) {
    NOWHERE;
    CALL("inotify", path, REAL(inotify_init1)(flags));
}

int inotify_add_watch(int fd, const char *name, uint32_t mask) {
    char path[PATH_MAX];
    path_at(AT_FDCWD, name, path);
    CALL("inotify", path, REAL(inotify_add_watch)(fd, name, mask));
}

/* ----------------------------------------------------------------------------------------------------------- clock */

static long clock_shift(void) {
    char text[32];
    int saved = errno;
    long fd = armed.clock[0] ? syscall(SYS_openat, AT_FDCWD, armed.clock, O_RDONLY | O_CLOEXEC, 0) : -1;
    long length = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
    text[length > 0 ? length : 0] = 0;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (!result && armed.clock[0] && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += clock_shift();
    return result;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
