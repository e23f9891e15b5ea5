/* Asks /dev/neuronN everything that a program discovers by, and prints what it is told, for fake-neuron's tests to compare. Structures
 * and numbers are written down here once more, from docs/reference/neuron.md section 4.2, so that a compiler checks their sizes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <netinet/in.h>
#include <arpa/inet.h>

struct basic_info { uint32_t architecture, revision; };
struct device_info {
    struct basic_info basic;
    uint32_t count, connected[8];
    uint64_t bar_address[2], bar_size[2];
};
struct driver_info { struct basic_info basic; uint32_t version, size; uint64_t features; };
struct versions { uint32_t max, min; };
struct bdf { uint32_t bus; uint8_t slot, function; };
struct bdf_ext { uint32_t index, domain, bus; uint8_t slot, function; };
struct reset { uint32_t cores, request; };
struct ready { uint32_t request; int32_t result; };
struct print { const void *text; uint32_t size, action; };
struct routing_ids { uint32_t count, ids[64]; };
struct core { uint32_t device, index; };
struct core_map { uint32_t count; struct core cores[128]; };
struct core_map_request { struct core_map *map; uint32_t room, version; };
struct pod_info { uint16_t size; uint8_t type, id[256], nodes; };
struct pod_status { uint16_t size; uint8_t id[256]; uint32_t state; uint8_t type, nodes; int8_t node; };
struct pod_status_2 { struct pod_status first; uint32_t mode, modes; };
struct pod_control { uint16_t size; uint32_t control, timeout, state; };
struct pod_control_2 { struct pod_control first; uint32_t mode; };
struct range { uint32_t count, first, last, longest; unsigned long cores; };
struct range_ext { uint32_t count, first, last, longest; unsigned long cores[8]; };
struct app { int32_t pid; uint8_t cores; uint8_t models[4][32]; size_t host, device; };
struct apps { uint16_t flags; uint32_t capacity, size; struct app apps[]; };

#define DEVICE_INFO _IOR('N', 3, struct device_info *)
#define ALL_APPS _IOR('N', 7, struct apps *)
#define MARK _IOW('N', 85, struct range *)
#define MARK_EXT _IOWR('N', 85, struct range_ext)
#define UNMARK _IOW('N', 86, struct range *)
#define UNMARK_EXT _IOW('N', 86, struct range_ext)
#define COMPATIBLE _IOW('N', 93, struct versions *)
#define BASIC_INFO _IOW('N', 100, struct basic_info *)
#define BDF _IOR('N', 101, struct bdf *)
#define NC_RESET _IOR('N', 103, struct reset *)
#define NC_READY _IOR('N', 104, struct ready *)
#define BDF_EXT _IOR('N', 106, struct bdf_ext *)
#define DRIVER_INFO_GET _IOR('N', 110, struct driver_info)
#define DRIVER_INFO_SET _IOW('N', 110, struct driver_info)
#define PRINTK _IOW('N', 113, struct print)
#define HOST_DEVICE_ID _IOR('N', 114, uint32_t)
#define ROUTING_IDS _IOWR('N', 115, struct routing_ids)
#define CORE_MAP _IOWR('N', 120, struct core_map_request)
#define POD_INFO _IOWR('N', 121, struct pod_info)
#define POD_STATUS _IOWR('N', 122, struct pod_status)
#define POD_STATUS_2 _IOWR('N', 122, struct pod_status_2)
#define POD_CONTROL _IOWR('N', 123, struct pod_control)
#define POD_CONTROL_2 _IOWR('N', 123, struct pod_control_2)

_Static_assert(DEVICE_INFO == 0x80084e03 && sizeof(struct device_info) == 80, "DEVICE_INFO");
_Static_assert(ALL_APPS == 0x80084e07 && sizeof(struct app) == 152 && offsetof(struct apps, apps) == 16, "ALL_APPS");
_Static_assert(MARK == 0x40084e55 && sizeof(struct range) == 24, "MARK");
_Static_assert(MARK_EXT == 0xc0504e55 && UNMARK == 0x40084e56 && UNMARK_EXT == 0x40504e56, "MARK_EXT, UNMARK");
_Static_assert(COMPATIBLE == 0x40084e5d && BASIC_INFO == 0x40084e64, "COMPATIBLE_VERSION, BASIC_INFO");
_Static_assert(BDF == 0x80084e65 && BDF_EXT == 0x80084e6a && sizeof(struct bdf_ext) == 16, "BDF");
_Static_assert(NC_RESET == 0x80084e67 && NC_READY == 0x80084e68, "NC_RESET, NC_READY");
_Static_assert(DRIVER_INFO_GET == 0x80184e6e && DRIVER_INFO_SET == 0x40184e6e, "DRIVER_INFO");
_Static_assert(PRINTK == 0x40104e71 && HOST_DEVICE_ID == 0x80044e72 && ROUTING_IDS == 0xc1044e73, "PRINTK to ROUTING_IDS");
_Static_assert(CORE_MAP == 0xc0104e78 && POD_INFO == 0xc1044e79, "CORE_MAP, POD_INFO");
_Static_assert(POD_STATUS == 0xc10c4e7a && POD_STATUS_2 == 0xc1144e7a, "POD_STATUS");
_Static_assert(POD_CONTROL == 0xc0104e7b && POD_CONTROL_2 == 0xc0144e7b, "POD_CTRL");

static const char *node(int device) {
    static char path[64];
    snprintf(path, sizeof path, "/dev/neuron%d", device);
    return path;
}

/* Opens a device or prints why not. */
static int open_device(int device, int flags) {
    int file = open(node(device), flags | O_CLOEXEC);
    if (file < 0) printf("neuron%d open: %s\n", device, strerrorname_np(errno));
    return file;
}

/* Prints the name and how the command ended; whether it was answered. */
static int ask(int file, const char *name, unsigned long command, void *argument) {
    int answer = ioctl(file, command, argument);
    if (answer == 0) return 1;
    if (answer > 0) printf("%s: %d left over\n", name, answer);
    else if (errno == 524) printf("%s: ENOTSUPP\n", name);
    else printf("%s: %s\n", name, strerrorname_np(errno));
    return 0;
}

static void print_device(int device, int file) {
    struct device_info info;
    struct bdf bdf;
    struct bdf_ext ext = {.index = 0};
    uint32_t id = 99;
    memset(&info, 0xff, sizeof info);
    if (ask(file, "device_info", DEVICE_INFO, &info)) {
        printf("neuron%d arch %u revision %u links", device, info.basic.architecture, info.basic.revision);
        for (unsigned place = 0; place < info.count; place++) printf(" %u", info.connected[place]);
        printf("\n");
        for (unsigned place = info.count; place < 8; place++)
            if (info.connected[place] != 0) printf("neuron%d: a link too many at %u\n", device, place);
        for (int bar = 0; bar < 2; bar++)
            printf("neuron%d bar %d: %#lx bytes at %#lx\n", device, bar, (unsigned long)info.bar_size[bar], (unsigned long)info.bar_address[bar]);
    }
    if (ask(file, "bdf", BDF, &bdf)) printf("neuron%d bdf %02x:%02x.%x\n", device, bdf.bus, bdf.slot, bdf.function);
    if (ask(file, "bdf_ext", BDF_EXT, &ext))
        printf("neuron%d bdf_ext %04x:%02x:%02x.%x\n", device, ext.domain, ext.bus, ext.slot, ext.function);
    if (ask(file, "host_device_id", HOST_DEVICE_ID, &id)) printf("neuron%d host id %u\n", device, id);
}

static void print_host(int file) {
    struct basic_info basic;
    struct driver_info driver;
    struct versions versions;
    struct routing_ids routing;
    struct core_map map = {.count = 0};
    struct core_map_request request = {&map, 128, 0};
    if (ask(file, "basic_info", BASIC_INFO, &basic)) printf("arch %u revision %u\n", basic.architecture, basic.revision);
    if (ask(file, "driver_info", DRIVER_INFO_GET, &driver))
        printf("driver arch %u version %u size %u features %#lx\n", driver.basic.architecture, driver.version, driver.size,
               (unsigned long)driver.features);
    if (ask(file, "compatible", COMPATIBLE, &versions)) printf("compatible %u to %u\n", versions.min, versions.max);
    memset(&routing, 0xff, sizeof routing);
    if (ask(file, "routing_ids", ROUTING_IDS, &routing)) {
        printf("routing ids");
        for (unsigned place = 0; place < routing.count; place++) printf(" %u", routing.ids[place]);
        for (unsigned place = routing.count; place < 64; place++)
            if (routing.ids[place] != 0) printf(" not zero at %u", place);
        printf("\n");
    }
    if (ask(file, "core_map", CORE_MAP, &request)) {
        printf("cores of %u: neuron0", map.count);
        for (unsigned place = 0; place < 8; place++) printf(" %u", map.cores[place].index);
        printf(", neuron%u", map.cores[127].device);
        for (unsigned place = 120; place < 128; place++) printf(" %u", map.cores[place].index);
        printf("\n");
    }
}

static void print_pod(int file) {
    struct pod_info info = {.size = sizeof info};
    struct pod_status status = {.size = sizeof status};
    struct pod_status_2 second = {.first.size = sizeof second};
    struct pod_control control = {.size = sizeof control, .control = 1};
    struct pod_control_2 control_2 = {.first = {.size = sizeof control_2, .control = 1}};
    if (ask(file, "pod_info", POD_INFO, &info)) printf("pod type %u nodes %u\n", info.type, info.nodes);
    if (ask(file, "pod_status", POD_STATUS, &status))
        printf("pod state %u type %u node %d\n", status.state, status.type, status.node);
    if (ask(file, "pod_status_2", POD_STATUS_2, &second)) printf("pod mode %u of %#x\n", second.mode, second.modes);
    if (ask(file, "pod_control", POD_CONTROL, &control)) printf("pod control state %u\n", control.state);
    if (ask(file, "pod_control_2", POD_CONTROL_2, &control_2)) printf("pod control 2 state %u\n", control_2.first.state);
}

static int facts(int devices) {
    for (int device = 0; device < devices; device++) {
        int file = open_device(device, O_RDWR);
        if (file < 0) return 1;
        print_device(device, file);
        close(file);
    }
    int file = open_device(0, O_WRONLY);
    if (file < 0) return 1;
    print_host(file);
    print_pod(file);
    return 0;
}

/* What free access answers, and what a device open for use answers to commands with wrong numbers. */
static int refusals(void) {
    char room[512] = {0};
    struct pod_info pod = {.size = 7};
    struct driver_info driver = {.size = 0};
    struct core_map_request map = {NULL, 129, 0};
    struct bdf_ext beyond = {.index = 60};
    struct print print = {"no end", 6, 0}, huge = {room, 513, 0};
    struct { const char *name; unsigned long command; } free_access[] = {
        {"device_info", DEVICE_INFO}, {"all_apps", ALL_APPS}, {"bdf", BDF}, {"host_device_id", HOST_DEVICE_ID},
        {"nc_reset", NC_RESET}, {"nc_ready", NC_READY}, {"driver_info_set", DRIVER_INFO_SET},
    };
    int file = open_device(0, O_WRONLY);
    if (file < 0) return 1;
    for (unsigned place = 0; place < sizeof free_access / sizeof *free_access; place++)
        ask(file, free_access[place].name, free_access[place].command, room);
    ask(file, "unknown number", _IOR('N', 200, int), room);
    ask(file, "device_info of another size", _IOR('N', 3, struct device_info), room);
    ask(file, "driver_info too small", _IOR('N', 110, uint64_t), &driver);
    if (ask(file, "driver_info larger", _IOR('N', 110, char[64]), room)) printf("driver_info larger: answered\n");
    ask(file, "routing_ids of another size", _IOWR('N', 115, uint32_t), room);
    ask(file, "pod_info that does not name its size", POD_INFO, &pod);
    ask(file, "core_map of 129", CORE_MAP, &map);
    ask(file, "bdf_ext of a device that is not there", BDF_EXT, &beyond);
    ask(file, "printk without end", PRINTK, &print);
    ask(file, "printk of 513", PRINTK, &huge);
    ask(file, "basic_info to nowhere", BASIC_INFO, (void *)8);
    ask(file, "bdf_ext from nowhere", BDF_EXT, (void *)8);
    return 0;
}

static void print_cores(const char *name, const unsigned long *cores, int words) {
    printf("%s:", name);
    for (int core = 0; core < 64 * words; core++)
        if (cores[core / 64] >> (core % 64) & 1) printf(" %d", core);
    printf("\n");
}

/* Reserves cores through device 0, says which, and holds them until its input ends. */
static int reserve(uint32_t count, uint32_t first, uint32_t last) {
    struct range_ext range = {count, first, last, 77, {0}};
    int file = open_device(0, O_WRONLY);
    char byte;
    if (file < 0) return 1;
    if (!ask(file, "mark", MARK_EXT, &range)) {
        printf("longest %u\n", range.longest);
        return 3;
    }
    print_cores("marked", range.cores, 8);
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {}
    return 0;
}

/* Reserves, gives back, and reserves by closing: each in one process. */
static int give_back(void) {
    struct range range = {2, 0, 3, 0, 0};
    struct range_ext all = {.cores = {~0ul, ~0ul, ~0ul, ~0ul, ~0ul, ~0ul, ~0ul, ~0ul}};
    int file = open_device(0, O_WRONLY);
    if (ask(file, "mark", MARK, &range)) print_cores("marked", &range.cores, 1);
    if (ask(file, "mark", MARK, &range)) print_cores("marked", &range.cores, 1);
    ask(file, "mark a third time", MARK, &range);
    range.cores = 1;
    if (ask(file, "unmark", UNMARK, &range)) printf("unmarked one\n");
    range = (struct range){1, 0, 3, 0, 0};
    if (ask(file, "mark", MARK, &range)) print_cores("marked", &range.cores, 1);
    if (ask(file, "unmark", UNMARK_EXT, &all)) printf("unmarked all\n");
    range = (struct range){4, 0, 3, 0, 0};
    if (ask(file, "mark", MARK, &range)) print_cores("marked", &range.cores, 1);
    range = (struct range){1, 3, 2, 0, 0};
    ask(file, "mark of no range", MARK, &range);
    range = (struct range){1, 0, 512, 0, 0};
    ask(file, "mark beyond", MARK, &range);
    close(file);
    file = open_device(0, O_WRONLY);
    range = (struct range){4, 0, 3, 0, 0};
    if (ask(file, "mark", MARK, &range)) print_cores("marked after a close", &range.cores, 1);
    return 0;
}

static void print_id(const char *name, int file) {
    uint32_t id = 99;
    if (ask(file, name, HOST_DEVICE_ID, &id)) printf("%s: %u\n", name, id);
}

/* The same device by a copy, in a child, in another program, over a socket, and opened through /proc. */
static int copies(const char *self) {
    int file = open(node(1), O_RDWR), pair[2];
    char text[32], path[64];
    struct driver_info driver;
    print_id("itself", file);
    print_id("copied", dup2(file, 200));
    fflush(stdout);
    if (fork() == 0) {
        print_id("in a child", 200);
        ask(200, "driver_info_set in a child", DRIVER_INFO_SET, &driver);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    ask(200, "driver_info_set by who opened it", DRIVER_INFO_SET, &driver);
    fflush(stdout);
    if (fork() == 0) {
        snprintf(text, sizeof text, "%d", 200);
        execl(self, self, "ask", text, NULL);
        _exit(9);
    }
    wait(NULL);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    union { char space[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control = {{0}};
    struct iovec one = {text, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &file, sizeof file);
    sendmsg(pair[0], &message, 0);
    recvmsg(pair[1], &message, 0);
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    print_id("over a socket", file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    print_id("through /proc", open(path, O_RDWR));
    printf("%s\n", (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR ? "opened O_RDWR" : "opened otherwise");
    print_id("another file", open("/proc/self/stat", O_RDONLY));
    return 0;
}

/* By every way to write the path. */
static int paths(void) {
    struct { uint64_t flags, mode, resolve; } how = {O_RDWR, 0, 0};
    print_id("openat", openat(AT_FDCWD, node(1), O_RDWR));
    print_id("openat2", syscall(SYS_openat2, AT_FDCWD, node(1), &how, sizeof how));
    print_id("winding", open("/proc/../dev/./neuron1", O_RDWR));
    print_id("of a folder", openat(open("/dev", O_RDONLY | O_DIRECTORY), "neuron1", O_RDWR));
    if (chdir("/dev") == 0) print_id("here", open("neuron1", O_RDWR));
    if (chdir("/proc") == 0) print_id("upwards", open("../dev/neuron1", O_RDWR));
#ifdef SYS_open
    print_id("open itself", syscall(SYS_open, node(1), O_RDWR));
#endif
    printf("neuron01: %s\n", open("/dev/neuron01", O_RDWR) < 0 ? strerrorname_np(errno) : "opened");
    printf("neuron63: %s\n", open("/dev/neuron63", O_RDWR) < 0 ? strerrorname_np(errno) : "opened");
    printf("exclusive: %s\n", open(node(1), O_RDWR | O_CREAT | O_EXCL, 0600) < 0 ? strerrorname_np(errno) : "opened");
    printf("elsewhere: %s\n", open("/proc/neuron1", O_RDWR) < 0 ? strerrorname_np(errno) : "opened");
    return 0;
}

static void print_type(const char *name, mode_t mode, unsigned major_number, unsigned minor_number) {
    printf("%s: %s %o %u:%u\n", name, S_ISCHR(mode) ? "character device" : "no device", mode & 07777, major_number, minor_number);
}

static int types(void) {
    struct stat found;
    struct statx more;
    int file = open_device(1, O_RDWR);
    if (stat(node(1), &found) == 0) print_type("stat", found.st_mode, major(found.st_rdev), minor(found.st_rdev));
    if (lstat(node(1), &found) == 0) print_type("lstat", found.st_mode, major(found.st_rdev), minor(found.st_rdev));
    if (fstat(file, &found) == 0) print_type("fstat", found.st_mode, major(found.st_rdev), minor(found.st_rdev));
    if (statx(AT_FDCWD, node(1), 0, STATX_BASIC_STATS, &more) == 0)
        print_type("statx", more.stx_mode, more.stx_rdev_major, more.stx_rdev_minor);
    if (statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more) == 0)
        print_type("statx of a descriptor", more.stx_mode, more.stx_rdev_major, more.stx_rdev_minor);
    struct stat by_path;
    if (fstat(file, &found) == 0 && stat(node(1), &by_path) == 0)
        printf("%s\n", found.st_ino == by_path.st_ino && found.st_dev == by_path.st_dev ? "one file" : "two files");
    printf("size %ld, links %lu, owner %u\n", (long)found.st_size, (unsigned long)found.st_nlink, found.st_uid);
    /* Where the processor has no such call, open is what the library makes of it. */
    int created = creat(node(1), 0666);
    struct basic_info basic;
    if (created < 0) printf("creat: %s\n", strerrorname_np(errno));
    else if (ask(created, "basic_info", BASIC_INFO, &basic)) printf("creat is answered\n");
    if (stat("/proc", &found) == 0) printf("/proc is %s\n", S_ISDIR(found.st_mode) ? "a folder" : "no folder");
    return 0;
}

/* Who has device 0 open for use, this process first; holds it until its input ends. */
static int hold(void) {
    union { struct apps apps; char space[16 + 16 * 152]; } room = {.apps = {.capacity = 16, .flags = 3}};
    int file = open_device(0, O_RDWR);
    char byte;
    if (file < 0) return 3;
    if (ask(file, "all_apps", ALL_APPS, &room)) {
        int own = 0;
        for (unsigned place = 0; place < room.apps.size; place++) own += room.apps.apps[place].pid == getpid();
        printf("open by %u, own %d\n", room.apps.size, own);
    }
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {}
    return 0;
}

/* Asks before and after its input has ended, when whoever answers may be gone. */
static int outlive(void) {
    int file = open_device(0, O_RDWR);
    char byte;
    if (file < 0) return 3;
    print_id("host id", file);
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {}
    print_id("host id", file);
    return 0;
}

static int print_and_reset(void) {
    struct print print = {"2026 NEURON_HW_ERR=DMA_ERROR", 29, 0};
    struct reset reset = {0xffffffff, 0};
    struct ready ready = {0, -1};
    int file = open_device(0, O_RDWR);
    if (ask(file, "printk", PRINTK, &print)) printf("printed\n");
    if (ask(file, "nc_reset", NC_RESET, &reset)) printf("request is %s\n", (int)reset.request == getpid() ? "the process" : "another");
    ready.request = reset.request;
    if (ask(file, "nc_ready", NC_READY, &ready)) printf("reset %d\n", ready.result);
    return 0;
}

static int metadata(void) {
    struct sockaddr_in service = {.sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = inet_addr("169.254.169.254")};
    int file = socket(AF_INET, SOCK_STREAM, 0);
    char text[64] = {0};
    if (connect(file, (struct sockaddr *)&service, sizeof service) != 0) {
        printf("connect: %s\n", strerrorname_np(errno));
        return 1;
    }
    for (size_t got = 0; got < sizeof text - 1;) {
        ssize_t part = read(file, text + got, sizeof text - 1 - got);
        if (part <= 0) break;
        got += part;
    }
    printf("%s", text);
    return 0;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "facts") && count > 2) return facts(atoi(words[2]));
    if (!strcmp(what, "refusals")) return refusals();
    if (!strcmp(what, "reserve") && count > 4) return reserve(atoi(words[2]), atoi(words[3]), atoi(words[4]));
    if (!strcmp(what, "give-back")) return give_back();
    if (!strcmp(what, "copies")) return copies(words[0]);
    if (!strcmp(what, "ask") && count > 2) return print_id("in another program", atoi(words[2])), 0;
    if (!strcmp(what, "paths")) return paths();
    if (!strcmp(what, "types")) return types();
    if (!strcmp(what, "hold")) return hold();
    if (!strcmp(what, "outlive")) return outlive();
    if (!strcmp(what, "print-and-reset")) return print_and_reset();
    if (!strcmp(what, "metadata")) return metadata();
    fprintf(stderr, "discover: say what to ask\n");
    return 2;
}
