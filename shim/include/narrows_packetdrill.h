/* The interface between packetdrill and a TCP in a shared object, for programs in C that drive
 * libnarrows_packetdrill.so themselves.
 *
 * Names, order and types of the fields are packetdrill's: they are the binary interface. Every
 * function takes `userdata` first; it returns -1 and sets errno where it fails. Unless said
 * otherwise a function does what the system call of its name does. See docs/SCRIPTS.md.
 */
#ifndef NARROWS_PACKETDRILL_H
#define NARROWS_PACKETDRILL_H

#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

struct packetdrill_interface {
    /* Handed back with every call. */
    void *userdata;

    /* The end: nothing is called after this. */
    void (*free)(void *userdata);

    int (*socket)(void *userdata, int family, int kind, int protocol);
    int (*bind)(void *userdata, int fd, const struct sockaddr *at, socklen_t at_len);
    int (*listen)(void *userdata, int fd, int backlog);
    int (*accept)(void *userdata, int fd, struct sockaddr *peer, socklen_t *peer_len);
    int (*connect)(void *userdata, int fd, const struct sockaddr *to, socklen_t to_len);

    ssize_t (*read)(void *userdata, int fd, void *to, size_t room);
    ssize_t (*readv)(void *userdata, int fd, const struct iovec *parts, int count);
    ssize_t (*recv)(void *userdata, int fd, void *to, size_t room, int flags);
    ssize_t (*recvfrom)(void *userdata, int fd, void *to, size_t room, int flags,
                        struct sockaddr *peer, socklen_t *peer_len);
    ssize_t (*recvmsg)(void *userdata, int fd, struct msghdr *message, int flags);

    ssize_t (*write)(void *userdata, int fd, const void *bytes, size_t len);
    ssize_t (*writev)(void *userdata, int fd, const struct iovec *parts, int count);
    ssize_t (*send)(void *userdata, int fd, const void *bytes, size_t len, int flags);
    ssize_t (*sendto)(void *userdata, int fd, const void *bytes, size_t len, int flags,
                      const struct sockaddr *to, socklen_t to_len);
    ssize_t (*sendmsg)(void *userdata, int fd, const struct msghdr *message, int flags);

    int (*fcntl)(void *userdata, int fd, int command, ...);
    int (*ioctl)(void *userdata, int fd, unsigned long request, ...);
    int (*close)(void *userdata, int fd);
    int (*shutdown)(void *userdata, int fd, int how);
    int (*getsockopt)(void *userdata, int fd, int level, int option, void *value, socklen_t *len);
    int (*setsockopt)(void *userdata, int fd, int level, int option, const void *value,
                      socklen_t len);
    int (*poll)(void *userdata, struct pollfd *fds, nfds_t count, int timeout_ms);

    /* An IP packet arrives at the TCP. */
    int (*netdev_send)(void *userdata, const void *packet, size_t len);

    /* The next IP packet that leaves the TCP. The clock goes on to the next timer, and the next,
     * until one leaves. `len` is the room before and the packet's length after; 0: no timer is
     * armed, so that none will ever leave. `at_usecs` is when it left. */
    int (*netdev_receive)(void *userdata, void *packet, size_t *len, long long *at_usecs);

    /* Moves the virtual clock. Returns early when a call that blocked in another thread returns. */
    int (*usleep)(void *userdata, useconds_t usecs);

    /* The virtual clock, which each look moves by a microsecond. Look after each call that blocked,
     * in the thread that made it: the clock stands until then. */
    int (*gettimeofday)(void *userdata, struct timeval *now, struct timezone *zone);

    /* These fail with ENOSYS. */
    int (*epoll_create)(void *userdata, int size);
    int (*epoll_ctl)(void *userdata, int epoll, int what, int fd, struct epoll_event *event);
    int (*epoll_wait)(void *userdata, int epoll, struct epoll_event *events, int room,
                      int timeout_ms);
    int (*pipe)(void *userdata, int ends[2]);
    int (*splice)(void *userdata, int from, off64_t *from_at, int to, off64_t *to_at, size_t len,
                  unsigned int flags);
};

/* Fills in the table. `flags`, which may be null, is what packetdrill's --so_flags says:
 * "profile=linux; mtu=9000; narrows.detector=rack". Where it is wrong, that is said on standard
 * error, and every function fails with EINVAL. */
void packetdrill_interface_init(const char *flags, struct packetdrill_interface *table);

#ifdef __cplusplus
}
#endif

#endif
