/* Drives libnarrows_packetdrill.so as a C compiler sees its interface: layout, variadic functions,
 * two threads, a handshake, data, and the end.
 *
 *   handshake LAYOUT               prints the table's layout
 *   handshake RUN file.so          the interface
 *   handshake PRELOADED file.so    getsockopt() of libc too, with file.so in LD_PRELOAD
 */
#define _GNU_SOURCE
#include "narrows_packetdrill.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

typedef void init_function(const char *, struct packetdrill_interface *);

static struct packetdrill_interface t;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno);      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- Packets. */

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

struct segment {
    uint16_t from, to;
    uint32_t seq, ack;
    uint8_t flags;
    size_t len;
    uint8_t text[2000];
};

static uint32_t add(uint32_t sum, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    return sum;
}

static void put(uint8_t *at, uint32_t n, int bytes)
{
    for (int i = bytes; i-- > 0; n >>= 8)
        at[i] = n & 0xff;
}

static uint32_t get(const uint8_t *at, int bytes)
{
    uint32_t n = 0;
    for (int i = 0; i < bytes; i++)
        n = n << 8 | at[i];
    return n;
}

static uint16_t finish(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

static const uint8_t PEER[4] = {192, 0, 2, 1}, OWN[4] = {192, 168, 0, 1};

static void arrive(uint32_t seq, uint32_t ack, uint8_t flags, const char *text)
{
    uint8_t p[1500] = {0x45};
    size_t len = strlen(text), all = 40 + len;
    put(p + 2, all, 2);
    p[8] = 64;
    p[9] = 6;
    memcpy(p + 12, PEER, 4);
    memcpy(p + 16, OWN, 4);
    put(p + 10, finish(add(0, p, 20)), 2);
    put(p + 20, 40001, 2);
    put(p + 22, 8080, 2);
    put(p + 24, seq, 4);
    put(p + 28, ack, 4);
    p[32] = 5 << 4;
    p[33] = flags;
    put(p + 34, 65535, 2);
    memcpy(p + 40, text, len);
    uint32_t sum = add(add(6 + all - 20, p + 12, 8), p + 20, all - 20);
    put(p + 36, finish(sum), 2);
    CHECK(t.netdev_send(t.userdata, p, all) == 0);
}

/* The next packet that leaves, and when. */
static long long leave(struct segment *s)
{
    uint8_t p[65536];
    size_t len = sizeof(p);
    long long at = -1;
    CHECK(t.netdev_receive(t.userdata, p, &len, &at) == 0);
    CHECK(len >= 40 && p[0] == 0x45 && get(p + 2, 2) == len);
    CHECK(finish(add(0, p, 20)) == 0);
    CHECK(finish(add(add(6 + len - 20, p + 12, 8), p + 20, len - 20)) == 0);
    CHECK(memcmp(p + 12, OWN, 4) == 0 && memcmp(p + 16, PEER, 4) == 0);
    size_t header = 20 + (p[32] >> 4) * 4;
    s->from = get(p + 20, 2);
    s->to = get(p + 22, 2);
    s->seq = get(p + 24, 4);
    s->ack = get(p + 28, 4);
    s->flags = p[33];
    s->len = len - header;
    CHECK(s->len <= sizeof(s->text));
    memcpy(s->text, p + header, s->len);
    return at;
}

static long long now(void)
{
    struct timeval tv;
    CHECK(t.gettimeofday(t.userdata, &tv, NULL) == 0);
    return tv.tv_sec * 1000000LL + tv.tv_usec;
}

/* ---- The second thread. */

struct blocking {
    int fd;
    ssize_t result;
    long long returned;
    char text[100];
};

static void *accept_in_thread(void *arg)
{
    struct blocking *b = arg;
    struct sockaddr_in peer;
    socklen_t len = sizeof(peer);
    b->result = t.accept(t.userdata, b->fd, (struct sockaddr *)&peer, &len);
    b->returned = now();
    CHECK(len == sizeof(peer) && peer.sin_family == AF_INET && ntohs(peer.sin_port) == 40001);
    CHECK(memcmp(&peer.sin_addr, PEER, 4) == 0);
    return NULL;
}

static void *read_in_thread(void *arg)
{
    struct blocking *b = arg;
    b->result = t.read(t.userdata, b->fd, b->text, sizeof(b->text));
    b->returned = now();
    return NULL;
}

static void *poll_in_thread(void *arg)
{
    struct blocking *b = arg;
    struct pollfd p = {.fd = b->fd, .events = POLLIN};
    long long began = now();
    b->result = t.poll(t.userdata, &p, 1, 70);
    b->returned = now() - began;
    return NULL;
}

/* ---- The checks. */

static void layout(void)
{
#define FIELD(name) printf(#name " %zu\n", offsetof(struct packetdrill_interface, name))
    FIELD(userdata);
    FIELD(free);
    FIELD(socket);
    FIELD(bind);
    FIELD(listen);
    FIELD(accept);
    FIELD(connect);
    FIELD(read);
    FIELD(readv);
    FIELD(recv);
    FIELD(recvfrom);
    FIELD(recvmsg);
    FIELD(write);
    FIELD(writev);
    FIELD(send);
    FIELD(sendto);
    FIELD(sendmsg);
    FIELD(fcntl);
    FIELD(ioctl);
    FIELD(close);
    FIELD(shutdown);
    FIELD(getsockopt);
    FIELD(setsockopt);
    FIELD(poll);
    FIELD(netdev_send);
    FIELD(netdev_receive);
    FIELD(usleep);
    FIELD(gettimeofday);
    FIELD(epoll_create);
    FIELD(epoll_ctl);
    FIELD(epoll_wait);
    FIELD(pipe);
    FIELD(splice);
    printf("end %zu\n", sizeof(struct packetdrill_interface));
}

static void settings(int fd)
{
    int flags = t.fcntl(t.userdata, fd, F_GETFL);
    CHECK(flags == O_RDWR);
    CHECK(t.fcntl(t.userdata, fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    CHECK(t.fcntl(t.userdata, fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
    errno = 0;
    CHECK(t.read(t.userdata, fd, &flags, 1) == -1 && errno == EAGAIN);
    int off = 0;
    CHECK(t.ioctl(t.userdata, fd, FIONBIO, &off) == 0);
    CHECK(t.fcntl(t.userdata, fd, F_GETFL) == O_RDWR);

    int on = 1, got = 0;
    socklen_t len = sizeof(got);
    CHECK(t.setsockopt(t.userdata, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    CHECK(t.getsockopt(t.userdata, fd, IPPROTO_TCP, TCP_NODELAY, &got, &len) == 0);
    CHECK(got == 1 && len == sizeof(got));
    errno = 0;
    CHECK(t.setsockopt(t.userdata, fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on)) == -1);
    CHECK(errno == ENOPROTOOPT);
    errno = 0;
    CHECK(t.setsockopt(t.userdata, fd, 77, 77, &on, sizeof(on)) == -1 && errno == ENOPROTOOPT);

    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    len = sizeof(linger);
    CHECK(t.setsockopt(t.userdata, fd, SOL_SOCKET, SO_LINGER, &linger, len) == 0);
    linger.l_onoff = linger.l_linger = 7;
    CHECK(t.getsockopt(t.userdata, fd, SOL_SOCKET, SO_LINGER, &linger, &len) == 0);
    CHECK(linger.l_onoff == 1 && linger.l_linger == 0 && len == sizeof(linger));
    linger.l_onoff = 0;
    CHECK(t.setsockopt(t.userdata, fd, SOL_SOCKET, SO_LINGER, &linger, len) == 0);

    char name[16] = "";
    len = sizeof(name);
    CHECK(t.getsockopt(t.userdata, fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0);
    CHECK(strcmp(name, "reno") == 0);
}

static void information(int fd, int preloaded)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    memset(&info, 0xff, sizeof(info));
    CHECK(t.getsockopt(t.userdata, fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    CHECK(len == sizeof(info) && info.tcpi_state == 1 /* ESTABLISHED */);
    /* One segment to begin with: the SYN-ACK had to be sent again. */
    CHECK(info.tcpi_snd_mss == 536 && info.tcpi_snd_cwnd == 1 && info.tcpi_advmss == 1460);
    CHECK(info.tcpi_segs_out == 2 && info.tcpi_snd_wnd == 65535 && info.tcpi_rto >= 1000000);

    struct tcp_info libc;
    len = sizeof(libc);
    errno = 0;
    int result = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &libc, &len);
    if (!preloaded) {
        CHECK(result == -1 && errno == ENOTSOCK);
        return;
    }
    CHECK(result == 0 && memcmp(&info, &libc, sizeof(info)) == 0);
    /* Of the kernel's sockets it is the kernel that answers. */
    int kernel = socket(AF_INET, SOCK_DGRAM, 0), kind = 0;
    len = sizeof(kind);
    CHECK(kernel >= 0 && getsockopt(kernel, SOL_SOCKET, SO_TYPE, &kind, &len) == 0);
    CHECK(kind == SOCK_DGRAM);
    close(kernel);
}

static void run(const char *file, int preloaded)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    init_function *init = (init_function *)dlsym(handle, "packetdrill_interface_init");
    CHECK(init);

    /* Wrong flags: everything fails, and nothing crashes. */
    init("profile=windows", &t);
    errno = 0;
    CHECK(t.socket(t.userdata, AF_INET, SOCK_STREAM, 0) == -1 && errno == EINVAL);
    t.free(t.userdata);
    init(NULL, NULL);

    /* Two seconds: longer than this thread is kept from a processor, even on a busy machine. */
    init("profile=rfc; idle_ms=2000", &t);
    int listener = t.socket(t.userdata, AF_INET, SOCK_STREAM, IPPROTO_TCP);
    CHECK(listener >= 0 && fcntl(listener, F_GETFD) >= 0);
    CHECK(t.socket(t.userdata, AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
    CHECK(t.socket(t.userdata, AF_INET, SOCK_DGRAM, 0) == -1 && errno == EPROTONOSUPPORT);

    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(8080)};
    memcpy(&at.sin_addr, OWN, 4);
    CHECK(t.bind(t.userdata, listener, NULL, sizeof(at)) == -1 && errno == EFAULT);
    CHECK(t.bind(t.userdata, listener, (struct sockaddr *)&at, 4) == -1 && errno == EINVAL);
    CHECK(t.bind(t.userdata, listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    CHECK(t.listen(t.userdata, listener, 1) == 0);

    /* Nothing is under way: nothing will leave. */
    uint8_t packet[100];
    size_t room = sizeof(packet);
    long long when;
    CHECK(t.netdev_receive(t.userdata, packet, &room, &when) == 0 && room == 0);

    /* The clock: a microsecond a look, and as long as one sleeps. */
    long long before = now();
    CHECK(now() == before + 1);
    CHECK(t.usleep(t.userdata, 50000) == 0);
    CHECK(now() == before + 50002);

    /* accept() blocks in a second thread until the handshake is complete. */
    pthread_t thread;
    struct blocking b = {.fd = listener};
    CHECK(pthread_create(&thread, NULL, accept_in_thread, &b) == 0);
    struct segment s;
    arrive(0, 0, SYN, "");
    leave(&s);
    CHECK(s.from == 8080 && s.to == 40001 && s.flags == (SYN | ACK) && s.ack == 1);
    uint32_t isn = s.seq;
    /* The SYN-ACK again, a second later. */
    long long again = leave(&s);
    CHECK(s.flags == (SYN | ACK) && s.seq == isn && again >= before + 1000000);
    arrive(1, isn + 1, ACK, "");
    CHECK(pthread_join(thread, NULL) == 0);
    int fd = b.result;
    CHECK(fd >= 0 && fd != listener && b.returned >= again);

    settings(fd);
    information(fd, preloaded);

    /* Data to the peer. */
    CHECK(t.write(t.userdata, fd, "hello", 5) == 5);
    leave(&s);
    CHECK(s.seq == isn + 1 && s.len == 5 && memcmp(s.text, "hello", 5) == 0);
    int queued = 0;
    CHECK(t.ioctl(t.userdata, fd, SIOCOUTQ, &queued) == 0 && queued == 5);
    arrive(1, isn + 6, ACK, "");
    CHECK(t.ioctl(t.userdata, fd, SIOCOUTQ, &queued) == 0 && queued == 0);
    CHECK(t.write(t.userdata, fd, NULL, 5) == -1 && errno == EFAULT);

    /* Data from the peer, to one who waits for it. The clock waits for him. */
    struct blocking r = {.fd = fd};
    CHECK(pthread_create(&thread, NULL, read_in_thread, &r) == 0);
    CHECK(t.usleep(t.userdata, 1000) == 0);
    long long sent = now();
    arrive(1, isn + 6, PSH | ACK, "worlds");
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(r.result == 6 && memcmp(r.text, "worlds", 6) == 0);
    CHECK(r.returned >= sent && r.returned < sent + 10);

    /* A poll that nothing ends: the clock goes on by itself when nobody else moves it. The delayed
     * ACK is not due before. */
    b.fd = fd;
    CHECK(pthread_create(&thread, NULL, poll_in_thread, &b) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(b.result == 0 && b.returned >= 70000 && b.returned < 71000);

    struct iovec parts[2] = {{"gather", 6}, {"ed", 2}};
    CHECK(t.writev(t.userdata, fd, parts, 2) == 8);
    leave(&s);
    CHECK(s.len == 8 && memcmp(s.text, "gathered", 8) == 0 && s.ack == 7);
    CHECK(t.writev(t.userdata, fd, parts, -1) == -1 && errno == EINVAL);
    arrive(7, isn + 14, ACK, "");

    /* Closed through libc, as packetdrill does at the end: a FIN leaves, as for any close. */
    CHECK(close(fd) == 0);
    now();
    leave(&s);
    CHECK(s.flags & FIN && s.seq == isn + 14);
    CHECK(t.write(t.userdata, fd, "x", 1) == -1 && errno == EBADF);
    CHECK(t.close(t.userdata, listener) == 0 && fcntl(listener, F_GETFD) == -1);
    CHECK(t.close(t.userdata, listener) == -1 && errno == EBADF);
    CHECK(t.epoll_create(t.userdata, 1) == -1 && errno == ENOSYS);
    arrive(7, isn + 15, RST | ACK, "");

    t.free(t.userdata);
    CHECK(t.socket(t.userdata, AF_INET, SOCK_STREAM, 0) == -1 && errno == EINVAL);
    printf("all is well\n");
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "LAYOUT"))
        layout();
    else if (argc == 3)
        run(argv[2], !strcmp(argv[1], "PRELOADED"));
    else
        return 2;
    return 0;
}
