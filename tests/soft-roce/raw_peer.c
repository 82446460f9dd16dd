/* Verbs and the connection manager, and nothing of cordma: the other side of interoperation tests, and what
 * cordma's figures are compared with. raw_peer --help tells its options.
 *
 * Both sides put a `struct hello` in the private data of the connection, the client in its request, the
 * server in its reply. All of it is in network byte order. Each describes a buffer that the other may write,
 * read and use atomically; what the client asks for is what the server expects:
 *   send        a message of `size` bytes each way, `count` times; the answer is what came
 *   write       the client writes into the server's buffer, and reads it back once, at the end
 *   read        the client reads the server's buffer, which holds byte i = (uint8_t)i at the start
 *   write_imm   the client writes with immediate i = 0, 1, ...; the server writes the same back, same value
 *   fetch_add   the client adds 1 to the first 8 bytes of the server's buffer, which are 0 at the start
 *   swap        the client swaps 0 by 1, 1 by 2, ... there
 * Message i holds byte j = (uint8_t)(i + j). The client disconnects at the end.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum op { OP_SEND = 1, OP_WRITE, OP_READ, OP_WRITE_IMM, OP_FETCH_ADD, OP_SWAP, OP_END };
static const char *const op_names[OP_END] = {
    [OP_SEND] = "send",           [OP_WRITE] = "write",         [OP_READ] = "read",
    [OP_WRITE_IMM] = "write_imm", [OP_FETCH_ADD] = "fetch_add", [OP_SWAP] = "swap"};

struct hello {
  uint32_t magic; /* HELLO_MAGIC */
  uint16_t version; /* HELLO_VERSION */
  uint16_t op;
  uint64_t address; /* of this side's buffer */
  uint32_t rkey;
  uint32_t size; /* of a message; the buffer holds one, and at least 8 bytes */
  uint32_t count;
  uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct hello) == 32, "a connection request carries 56 bytes");
enum { HELLO_MAGIC = 0x52415750, HELLO_VERSION = 1, RECEIVES = 16, MAX_SIZE = 1 << 26, WAIT_MS = 10000 };

struct options {
  const char *address, *port;
  uint32_t op, count, size;
  int serve, events;
};

/* One connection. `out` is sent from, `in` is what the peer may reach and what messages come into. */
struct peer {
  struct options o;
  struct rdma_event_channel *channel;
  struct rdma_cm_id *id;
  struct ibv_comp_channel *completions;
  struct ibv_cq *cq;
  struct ibv_mr *in_mr, *out_mr;
  uint8_t *in, *out;
  size_t buffer;
  uint64_t remote_address;
  uint32_t remote_rkey;
  unsigned arrived; /* receives that completed while a request of ours was waited for */
  struct ibv_wc arrival;
};

__attribute__((noreturn)) static void fail(const char *what, int error) {
  fprintf(stderr, "raw_peer: %s%s%s\n", what, error ? ": " : "", error ? strerror(error) : "");
  exit(1);
}
static void check(int result, const char *what) {
  if (result) fail(what, result > 0 ? result : errno);
}
static void *checked(void *pointer, const char *what) {
  if (!pointer) fail(what, errno);
  return pointer;
}

static void fill(uint8_t *bytes, uint32_t size, uint32_t message) {
  for (uint32_t j = 0; j < size; ++j) bytes[j] = (uint8_t)(message + j);
}
static void compare(const uint8_t *bytes, uint32_t size, uint32_t message) {
  for (uint32_t j = 0; j < size; ++j) {
    if (bytes[j] != (uint8_t)(message + j)) {
      fprintf(stderr, "raw_peer: message %u: byte %u is %u, not %u\n", message, j, bytes[j],
              (uint8_t)(message + j));
      exit(1);
    }
  }
}

/* The next event of the connection manager, which must be `wanted`; acknowledged by the caller. */
static struct rdma_cm_event *expect_event(struct peer *p, enum rdma_cm_event_type wanted) {
  struct rdma_cm_event *event;
  check(rdma_get_cm_event(p->channel, &event), "waiting for the connection manager");
  if (event->event != wanted) {
    fprintf(stderr, "raw_peer: %s (status %d) in place of %s\n", rdma_event_str(event->event), event->status,
            rdma_event_str(wanted));
    exit(1);
  }
  return event;
}
static void await_event(struct peer *p, enum rdma_cm_event_type wanted) {
  check(rdma_ack_cm_event(expect_event(p, wanted)), "acknowledging an event");
}

static void post_receive(struct peer *p) {
  struct ibv_sge part = {(uintptr_t)p->in, p->o.size, p->in_mr->lkey};
  struct ibv_recv_wr receive = {.sg_list = &part, .num_sge = part.length ? 1 : 0}, *bad;
  check(ibv_post_recv(p->id->qp, &receive, &bad), "ibv_post_recv");
}

/* The queue pair and the buffers: after this the peer can be talked to. */
static void set_up(struct peer *p) {
  const int local = IBV_ACCESS_LOCAL_WRITE;
  const int access = local | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  p->buffer = p->o.size < 8 ? 8 : p->o.size;
  p->in = checked(aligned_alloc(4096, (p->buffer + 4095) / 4096 * 4096), "memory");
  p->out = checked(aligned_alloc(4096, (p->buffer + 4095) / 4096 * 4096), "memory");
  memset(p->in, 0, p->buffer);
  memset(p->out, 0, p->buffer);
  if (p->o.op == OP_READ) fill(p->in, p->o.size, 0);
  if (p->o.events) {
    p->completions = checked(ibv_create_comp_channel(p->id->verbs), "ibv_create_comp_channel");
  }
  p->cq = checked(ibv_create_cq(p->id->verbs, 4 * RECEIVES, NULL, p->completions, 0), "ibv_create_cq");
  struct ibv_qp_init_attr attributes = {
      .qp_type = IBV_QPT_RC,
      .send_cq = p->cq,
      .recv_cq = p->cq,
      .cap = {.max_send_wr = 4, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1}};
  check(rdma_create_qp(p->id, NULL, &attributes), "rdma_create_qp");
  p->in_mr = checked(ibv_reg_mr(p->id->pd, p->in, p->buffer, access), "ibv_reg_mr");
  p->out_mr = checked(ibv_reg_mr(p->id->pd, p->out, p->buffer, local), "ibv_reg_mr");
  for (int i = 0; i < RECEIVES; ++i) post_receive(p);
}

static void tear_down(struct peer *p) {
  rdma_destroy_qp(p->id);
  check(ibv_destroy_cq(p->cq), "ibv_destroy_cq");
  if (p->completions) check(ibv_destroy_comp_channel(p->completions), "ibv_destroy_comp_channel");
  check(ibv_dereg_mr(p->in_mr), "ibv_dereg_mr");
  check(ibv_dereg_mr(p->out_mr), "ibv_dereg_mr");
  check(rdma_destroy_id(p->id), "rdma_destroy_id");
  free(p->in);
  free(p->out);
}

static struct hello our_hello(const struct peer *p) {
  return (struct hello){htonl(HELLO_MAGIC),    htons(HELLO_VERSION), htons((uint16_t)p->o.op),
                        htobe64((uintptr_t)p->in), htonl(p->in_mr->rkey), htonl(p->o.size),
                        htonl(p->o.count),     0};
}
static struct rdma_conn_param parameters(const struct hello *hello) {
  return (struct rdma_conn_param){.private_data = hello,
                                  .private_data_len = sizeof *hello,
                                  .responder_resources = 1,
                                  .initiator_depth = 1,
                                  .retry_count = 7,
                                  .rnr_retry_count = 7};
}
static struct hello read_hello(const struct rdma_cm_event *event) {
  struct hello h;
  if (event->param.conn.private_data_len < sizeof h) fail("the peer sent no hello", 0);
  memcpy(&h, event->param.conn.private_data, sizeof h);
  if (ntohl(h.magic) != HELLO_MAGIC) fail("the peer's hello is none of ours", 0);
  if (ntohs(h.version) != HELLO_VERSION) fail("the peer speaks another version", 0);
  h.op = ntohs(h.op);
  h.address = be64toh(h.address);
  h.rkey = ntohl(h.rkey);
  h.size = ntohl(h.size);
  h.count = ntohl(h.count);
  if (h.op < OP_SEND || h.op >= OP_END || h.size > MAX_SIZE) fail("the peer's hello asks for nonsense", 0);
  return h;
}

/* Waits in the kernel until there may be a completion; the queue is armed and was found empty. */
static void sleep_for_completion(struct peer *p) {
  struct pollfd waiting[] = {{.fd = p->completions->fd, .events = POLLIN},
                             {.fd = p->channel->fd, .events = POLLIN}};
  if (poll(waiting, 2, -1) < 0 && errno != EINTR) fail("poll", errno);
  if (waiting[0].revents) {
    struct ibv_cq *cq;
    void *context;
    check(ibv_get_cq_event(p->completions, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
  } else if (waiting[1].revents) {
    fail("the peer has gone before the end", 0);
  }
}

/* The next completion, which must be a good one. */
static struct ibv_wc next_completion(struct peer *p) {
  struct ibv_wc done;
  int found, armed = 0;
  for (uint64_t empty = 1; (found = ibv_poll_cq(p->cq, 1, &done)) == 0; ++empty) {
    if (p->o.events && armed) {
      sleep_for_completion(p);
      armed = 0;
    } else if (p->o.events) {
      check(ibv_req_notify_cq(p->cq, 0), "ibv_req_notify_cq");
      armed = 1; /* and look once more: it may have come before */
    } else if (empty % 100000 == 0) {
      struct pollfd event = {.fd = p->channel->fd, .events = POLLIN};
      if (poll(&event, 1, 0) > 0) fail("the peer has gone before the end", 0);
    }
  }
  if (found < 0) fail("ibv_poll_cq", errno);
  if (done.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(done.status), 0);
  return done;
}

static int is_arrival(const struct ibv_wc *done) {
  return done->opcode == IBV_WC_RECV || done->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
}

/* Posts a request. `extra` is the immediate, or what an atomic adds or expects. */
static void post_request(struct peer *p, enum ibv_wr_opcode opcode, uint32_t size, uint64_t extra) {
  struct ibv_sge part = {(uintptr_t)p->out, size, p->out_mr->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &part, .num_sge = size ? 1 : 0, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    wr.wr.atomic.remote_addr = p->remote_address;
    wr.wr.atomic.rkey = p->remote_rkey;
    wr.wr.atomic.compare_add = extra;
    wr.wr.atomic.swap = extra + 1;
  } else if (opcode != IBV_WR_SEND) {
    wr.wr.rdma.remote_addr = p->remote_address;
    wr.wr.rdma.rkey = p->remote_rkey;
    wr.imm_data = htonl((uint32_t)extra);
  }
  check(ibv_post_send(p->id->qp, &wr, &bad), "ibv_post_send");
}

/* Waits for the completion of the request that was posted last. */
static void await_request(struct peer *p) {
  for (;;) {
    const struct ibv_wc done = next_completion(p);
    if (!is_arrival(&done)) return;
    p->arrival = done; /* the answer came before our own completion */
    p->arrived += 1;
  }
}

static void request(struct peer *p, enum ibv_wr_opcode opcode, uint32_t size, uint64_t extra) {
  post_request(p, opcode, size, extra);
  await_request(p);
}

/* Message i has come into `in`, as `opcode` and whole. */
static void await_message(struct peer *p, enum ibv_wc_opcode opcode, uint32_t i) {
  if (p->arrived == 0) {
    p->arrival = next_completion(p);
    if (!is_arrival(&p->arrival)) fail("a completion that nothing asked for", 0);
  } else {
    p->arrived -= 1;
  }
  if (p->arrival.opcode != opcode) fail("a message of another kind came", 0);
  if (p->arrival.byte_len != p->o.size) fail("a message of another size came", 0);
  if (opcode == IBV_WC_RECV_RDMA_WITH_IMM && ntohl(p->arrival.imm_data) != i) {
    fail("another immediate came", 0);
  }
  compare(p->in, p->o.size, i);
  post_receive(p);
}

static void run_client(struct peer *p) {
  const uint32_t size = p->o.size;
  uint64_t *const old = (uint64_t *)p->out; /* an atomic gives the host's byte order */
  for (uint32_t i = 0; i < p->o.count; ++i) {
    switch (p->o.op) {
      case OP_SEND:
        fill(p->out, size, i);
        request(p, IBV_WR_SEND, size, 0);
        await_message(p, IBV_WC_RECV, i);
        break;
      case OP_WRITE:
        fill(p->out, size, i);
        request(p, IBV_WR_RDMA_WRITE, size, 0);
        break;
      case OP_READ:
        memset(p->out, 0xAA, size);
        request(p, IBV_WR_RDMA_READ, size, 0);
        compare(p->out, size, 0);
        break;
      case OP_WRITE_IMM:
        fill(p->out, size, i);
        request(p, IBV_WR_RDMA_WRITE_WITH_IMM, size, i);
        await_message(p, IBV_WC_RECV_RDMA_WITH_IMM, i);
        break;
      case OP_FETCH_ADD:
        request(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
        if (*old != i) fail("fetch_add gave another value", 0);
        break;
      default:
        request(p, IBV_WR_ATOMIC_CMP_AND_SWP, 8, i);
        if (*old != i) fail("swap gave another value", 0);
    }
  }
  if (p->o.op == OP_WRITE && p->o.count > 0) {
    memset(p->out, 0xAA, size);
    request(p, IBV_WR_RDMA_READ, size, 0);
    compare(p->out, size, p->o.count - 1);
  }
}

static void run_server(struct peer *p) {
  const int immediate = p->o.op == OP_WRITE_IMM;
  if (p->o.op != OP_SEND && !immediate) return;
  for (uint32_t i = 0; i < p->o.count; ++i) {
    await_message(p, immediate ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, i);
    fill(p->out, p->o.size, i);
    post_request(p, immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, p->o.size, i);
    /* The client disconnects when it has the last answer; that is the acknowledgement of it. */
    if (i + 1 < p->o.count) await_request(p);
  }
}

/* The server's buffer, once the client has gone. */
static void check_buffer(const struct peer *p) {
  const uint64_t word = *(const uint64_t *)p->in;
  if ((p->o.op == OP_FETCH_ADD || p->o.op == OP_SWAP) && word != p->o.count) fail("the word is wrong", 0);
  if (p->o.op == OP_WRITE && p->o.count > 0) compare(p->in, p->o.size, p->o.count - 1);
}

static struct rdma_addrinfo *resolve(const struct options *o) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = o->serve ? RAI_PASSIVE : 0}, *found;
  if (rdma_getaddrinfo(o->address, o->port, &hints, &found)) fail("that address is none", 0);
  return found;
}

static void serve(struct peer *p) {
  struct rdma_cm_id *listener;
  struct rdma_addrinfo *at = resolve(&p->o);
  check(rdma_create_id(p->channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
  check(rdma_bind_addr(listener, at->ai_src_addr), "rdma_bind_addr");
  check(rdma_listen(listener, 1), "rdma_listen");
  printf("listening on port %u\n", ntohs(rdma_get_src_port(listener)));
  fflush(stdout);
  struct rdma_cm_event *event = expect_event(p, RDMA_CM_EVENT_CONNECT_REQUEST);
  const struct hello theirs = read_hello(event);
  p->id = event->id;
  p->o.op = theirs.op;
  p->o.count = theirs.count;
  p->o.size = theirs.size;
  p->remote_address = theirs.address;
  p->remote_rkey = theirs.rkey;
  check(rdma_ack_cm_event(event), "acknowledging an event");
  set_up(p);
  const struct hello ours = our_hello(p);
  struct rdma_conn_param accept = parameters(&ours);
  check(rdma_accept(p->id, &accept), "rdma_accept");
  await_event(p, RDMA_CM_EVENT_ESTABLISHED);
  run_server(p);
  await_event(p, RDMA_CM_EVENT_DISCONNECTED);
  check_buffer(p);
  printf("served %s: %u x %u B\n", op_names[p->o.op], p->o.count, p->o.size);
  check(rdma_destroy_id(listener), "rdma_destroy_id");
  rdma_freeaddrinfo(at);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void connect_and_run(struct peer *p) {
  struct rdma_addrinfo *to = resolve(&p->o);
  check(rdma_create_id(p->channel, &p->id, NULL, RDMA_PS_TCP), "rdma_create_id");
  check(rdma_resolve_addr(p->id, NULL, to->ai_dst_addr, WAIT_MS), "rdma_resolve_addr");
  await_event(p, RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(p->id, WAIT_MS), "rdma_resolve_route");
  await_event(p, RDMA_CM_EVENT_ROUTE_RESOLVED);
  set_up(p);
  const struct hello ours = our_hello(p);
  struct rdma_conn_param ask = parameters(&ours);
  check(rdma_connect(p->id, &ask), "rdma_connect");
  struct rdma_cm_event *event = expect_event(p, RDMA_CM_EVENT_ESTABLISHED);
  const struct hello theirs = read_hello(event);
  check(rdma_ack_cm_event(event), "acknowledging an event");
  if (theirs.size < p->o.size) fail("the server's buffer is too small", 0);
  p->remote_address = theirs.address;
  p->remote_rkey = theirs.rkey;
  const double started = seconds();
  run_client(p);
  const double took = seconds() - started;
  check(rdma_disconnect(p->id), "rdma_disconnect");
  await_event(p, RDMA_CM_EVENT_DISCONNECTED);
  printf("%s: %u x %u B, %.2f us each, %.2f MB/s, %s\n", op_names[p->o.op], p->o.count, p->o.size,
         p->o.count ? took * 1e6 / p->o.count : 0, (double)p->o.size * p->o.count / took / 1e6,
         p->o.events ? "events" : "polling");
  rdma_freeaddrinfo(to);
}

static uint32_t number(const char *text, const char *option, uint32_t most) {
  char *end;
  errno = 0;
  const unsigned long value = strtoul(text, &end, 10);
  if (errno || end == text || *end || *text == '-' || value > most) {
    fprintf(stderr, "raw_peer: %s takes a number up to %u, not '%s'\n", option, most, text);
    exit(2);
  }
  return (uint32_t)value;
}

static void usage(void) {
  puts("raw_peer --serve [--event] [--port P] [ADDRESS]     serves one client, then ends\n"
       "raw_peer [options] ADDRESS                          is that client\n"
       "  --op OP      send, write, read, write_imm, fetch_add or swap; default: send\n"
       "  --count N    that many, one after the other; default: 1000\n"
       "  --size B     bytes of a message; default: 64. Atomics always have 8\n"
       "  --event      wait for completions in the kernel, not by polling\n"
       "  --port P     default: 7471\n"
       "Every byte is compared. Ends with 0 if all was right, 1 if not, 2 for a wrong option.");
}

static uint32_t op_named(const char *name) {
  for (uint32_t op = OP_SEND; op < OP_END; ++op) {
    if (strcmp(name, op_names[op]) == 0) return op;
  }
  fprintf(stderr, "raw_peer: no operation '%s'; --help lists them\n", name);
  exit(2);
}

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"serve", no_argument, NULL, 's'},
                                        {"op", required_argument, NULL, 'o'},
                                        {"count", required_argument, NULL, 'c'},
                                        {"size", required_argument, NULL, 'b'},
                                        {"event", no_argument, NULL, 'e'},
                                        {"port", required_argument, NULL, 'p'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  struct options o = {.port = "7471", .op = OP_SEND, .count = 1000, .size = 64};
  for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
    switch (c) {
      case 's': o.serve = 1; break;
      case 'o': o.op = op_named(optarg); break;
      case 'c': o.count = number(optarg, "--count", UINT32_MAX); break;
      case 'b': o.size = number(optarg, "--size", MAX_SIZE); break;
      case 'e': o.events = 1; break;
      case 'p': o.port = optarg; break;
      case 'h': usage(); exit(0);
      default: exit(2);
    }
  }
  o.address = optind < argc ? argv[optind] : o.serve ? "::" : NULL; /* that is IPv4 too */
  if (optind + 1 < argc || !o.address) {
    fprintf(stderr, "raw_peer: one address is needed; --help tells more\n");
    exit(2);
  }
  if (o.op == OP_FETCH_ADD || o.op == OP_SWAP) o.size = 8;
  return o;
}

int main(int argc, char **argv) {
  struct peer p = {.o = parse(argc, argv)};
  p.channel = checked(rdma_create_event_channel(), "no RDMA connection manager");
  if (p.o.serve) {
    serve(&p);
  } else {
    connect_and_run(&p);
  }
  tear_down(&p);
  rdma_destroy_event_channel(p.channel);
  return 0;
}
