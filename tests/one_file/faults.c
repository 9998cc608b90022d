/* Counts the operations of a process on files below one folder, and kills the process or fails the operation at one.
 *
 *     cc -shared -fPIC -O1 -o faults.so faults.c -ldl      LD_PRELOAD=./faults.so python ...
 *
 * Python calls faults_arm(folder, at, mode) by ctypes. Operation number `at` (from 1) is not done: with mode 1 the process
 * gets SIGKILL, else the operation fails with the error `mode` (EIO, ENOSPC). at = 0 only counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long at, count;
static int mode, armed;

void faults_arm(const char *where, long when, int how) {
    strncpy(folder, where, sizeof folder - 1);
    at = when, mode = how, count = 0, armed = 1;
}

long faults_count(void) { return count; }

static int below(const char *path) { return path && !strncmp(path, folder, strlen(folder)); }

static int hit(void) {
    if (++count != at) return 0;
    if (mode == 1) raise(SIGKILL);
    errno = mode;
    return 1;
}

static int path_hit(const char *path) { return armed && below(path) && hit(); }

static int fd_hit(int fd) {
    char link[64], path[4096];
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path) && hit();
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_PATH(name, parameters, path, arguments) \
    int name parameters { return path_hit(path) ? -1 : REAL(name) arguments; }
#define ON_FD(type, name, parameters, arguments) \
    type name parameters { return fd_hit(fd) ? -1 : REAL(name) arguments; }

ON_PATH(unlink, (const char *p), p, (p))
ON_PATH(unlinkat, (int d, const char *p, int f), p, (d, p, f))
ON_PATH(rename, (const char *p, const char *q), q, (p, q))
ON_PATH(renameat, (int d, const char *p, int e, const char *q), q, (d, p, e, q))
ON_PATH(link, (const char *p, const char *q), q, (p, q))
ON_PATH(linkat, (int d, const char *p, int e, const char *q, int f), q, (d, p, e, q, f))
ON_FD(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))
ON_FD(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
ON_FD(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
ON_FD(int, ftruncate, (int fd, off_t n), (fd, n))
ON_FD(int, ftruncate64, (int fd, off64_t n), (fd, n))
ON_FD(int, fsync, (int fd), (fd))
ON_FD(int, fdatasync, (int fd), (fd))

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        mode_t access = 0; \
        if (flags & O_CREAT) { \
            va_list rest; \
            va_start(rest, flags), access = va_arg(rest, mode_t), va_end(rest); \
            if (path_hit(path)) return -1; \
        } \
        return REAL(name)(path, flags, access); \
    }
OPEN(open)
OPEN(open64)
