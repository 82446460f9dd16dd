// bench-verbs_instructions: how many instructions in user space an operation takes beyond raw verbs.
// Posting and polling end in a provider that answers at once, the same on both sides, so that no
// instruction is one of waiting. Counted exactly: a child process is stepped through, one by one.
#include <cordma/net/cordma.hpp>

#include <infiniband/verbs.h>

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using namespace cordma;

constexpr std::size_t bytes = 64;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench-verbs_instructions: %s\n", what.c_str());
  std::exit(1);
}

// What was posted and not polled. One queue pair posts.
struct {
  ibv_cq* queue = nullptr;
  std::array<std::uint64_t, 128> ids{};
  unsigned posted = 0;
  unsigned polled = 0;
} at_once;

int post_at_once(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** /*bad*/) {
  at_once.queue = qp->send_cq;
  for (; wr != nullptr; wr = wr->next) {
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
      at_once.ids[at_once.posted++ % at_once.ids.size()] = wr->wr_id;
    }
  }
  return 0;
}

int poll_at_once(ibv_cq* cq, int room, ibv_wc* wc) {
  if (room < 1 || cq != at_once.queue || at_once.polled == at_once.posted) return 0;
  wc->wr_id = at_once.ids[at_once.polled++ % at_once.ids.size()];
  wc->status = IBV_WC_SUCCESS;
  wc->opcode = IBV_WC_RDMA_WRITE;
  wc->byte_len = 0;
  wc->wc_flags = 0;
  return 1;
}

void answer_at_once(ibv_context* c) {
  c->ops.post_send = post_at_once;
  c->ops.poll_cq = poll_at_once;
}

enum class what : std::uint8_t { write, send };

struct plan {
  what op = what::write;
  int operations = 0;
  int at_a_time = 1;  // started before the first is awaited
};

// As the parent reads it: what lies between two of these is counted.
void mark() { ::raise(SIGSTOP); }

task<> carry_out(Endpoint& e, const RemoteSlice& to, const Slice& from, const plan& p,
                 std::vector<send_operation>& under_way) {
  for (int i = 0; i < p.operations; i += p.at_a_time) {
    for (int k = 0; k < p.at_a_time; ++k) {
      under_way.push_back((p.op == what::write ? e.write(to, from) : e.send(from)).start());
    }
    for (send_operation& one : under_way) co_await one;
    under_way.clear();
  }
}

task<> connect_and_count(Context* context, Worker* worker, plan p) {
  Endpoint near = worker->prepare().value();
  Endpoint far = worker->prepare().value();
  const std::vector<std::byte> of_near = near.descriptor().value();
  const std::vector<std::byte> of_far = far.descriptor().value();
  near.connect(of_far).value();
  far.connect(of_near).value();
  while (near.state() == endpoint_state::connecting) co_await near.state_changed();
  const MemoryRegion out = context->allocate(bytes).value();
  const MemoryRegion in = context->allocate(bytes, access::remote_write).value();
  const RemoteMemory remote = RemoteMemory::import(in.export_blob().value()).value();
  answer_at_once(context->native_pd().value()->context);
  const RemoteSlice to = remote.all();
  const Slice from = out.all();
  std::vector<send_operation> under_way;
  under_way.reserve(static_cast<std::size_t>(p.at_a_time));
  co_await carry_out(near, to, from, p, under_way);
  mark();
  co_await carry_out(near, to, from, p, under_way);
  mark();
  ::_exit(0);  // what was posted has never been on the device
}

// By the calls that answer_at_once() replaces.
context_options on_verbs() {
  context_options options;
  options.transports = {transport::kind::verbs};
  options.verbs.calls = transport::verbs_calls::plain;
  return options;
}

void count_cordma(const plan& p) {
  Context context(on_verbs());
  Worker worker(context, reactor_options{.mode = wait_mode::polling});
  worker.run(connect_and_count(&context, &worker, p));
}

// The least that a program on libibverbs does for the same.
void post_and_poll(ibv_qp* qp, ibv_sge& from, const plan& p) {
  for (int i = 0; i < p.operations; i += p.at_a_time) {
    for (int k = 0; k < p.at_a_time; ++k) {
      ibv_send_wr wr{};
      wr.wr_id = static_cast<std::uint64_t>(k);
      wr.sg_list = &from;
      wr.num_sge = 1;
      wr.opcode = p.op == what::write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma.remote_addr = from.addr;
      wr.wr.rdma.rkey = from.lkey;
      ibv_send_wr* bad = nullptr;
      if (ibv_post_send(qp, &wr, &bad) != 0) fail("post");
    }
    for (int k = 0; k < p.at_a_time; ++k) {
      ibv_wc wc{};
      while (ibv_poll_cq(qp->send_cq, 1, &wc) == 0) continue;
      if (wc.status != IBV_WC_SUCCESS || wc.wr_id != static_cast<std::uint64_t>(k)) fail("poll");
    }
  }
}

void count_raw(const plan& p) {
  const Context context(on_verbs());
  ibv_pd* const pd = context.native_pd().value();
  ibv_cq* const cq = ibv_create_cq(pd->context, 64, nullptr, nullptr, 0);
  if (cq == nullptr) fail("no completion queue");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {.max_send_wr = 64,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd, &init);
  if (qp == nullptr) fail("no queue pair");
  answer_at_once(pd->context);
  std::array<std::byte, bytes> memory{};
  ibv_sge from{reinterpret_cast<std::uintptr_t>(memory.data()), bytes, 1};
  post_and_poll(qp, from, p);
  mark();
  post_and_poll(qp, from, p);
  mark();
  ::_exit(0);
}

// Instructions between the child's two marks.
std::uint64_t stepped_through(const std::function<void()>& child) {
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork: " + std::string(std::strerror(errno)));
  if (pid == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    try {
      child();
    } catch (const std::exception& e) {
      fail(e.what());
    }
    ::_exit(1);
  }
  int status = 0;
  const auto stopped_by = [&](int signal) {
    return ::waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == signal;
  };
  if (!stopped_by(SIGSTOP)) fail("it ended before there was anything to count");
  std::uint64_t steps = 0;
  for (;; ++steps) {
    if (::ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0)
      fail("this kernel steps through no child");
    if (stopped_by(SIGTRAP)) continue;
    if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) break;
    fail("it ended while it was counted");
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  return steps;
}

struct counted {
  double cordma = 0;
  double raw = 0;
  [[nodiscard]] double above() const noexcept { return cordma - raw; }
};

counted count(const plan& p) {
  const auto per_operation = [&p](const std::function<void()>& child) {
    return static_cast<double>(stepped_through(child)) / p.operations;
  };
  return {.cordma = per_operation([&p] { count_cordma(p); }),
          .raw = per_operation([&p] { count_raw(p); })};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "How many instructions in user space a write and a send of 64 bytes take beyond raw verbs: "
      "awaited\n"
      "by cordma, and posted and polled by hand, on a provider that answers at once. Needs an RDMA "
      "device.");
  int operations = 64;
  double most = 0;
  std::string json_to;
  app.add_option("-n,--operations", operations, "operations that are counted")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--at-most", most,
                 "end with 1 where there are more than so many beyond raw verbs");
  app.add_option("--json", json_to, "write JSON to this file, - for standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  nlohmann::json out = {{"bytes", bytes}};
  bool within = true;
  for (const auto& [op, name] : {std::pair{what::write, "write"}, std::pair{what::send, "send"}}) {
    for (const int at_a_time : {1, 64}) {
      const int rounds = (operations + at_a_time - 1) / at_a_time;
      const counted c = count({.op = op, .operations = rounds * at_a_time, .at_a_time = at_a_time});
      within = within && (most == 0 || c.above() <= most);
      out[name][std::to_string(at_a_time)] = {
          {"cordma", c.cordma}, {"raw", c.raw}, {"above", c.above()}};
      if (json_to.empty()) {
        std::printf("%-5s %2d at a time: %6.1f instructions, by hand %6.1f: %6.1f beyond\n", name,
                    at_a_time, c.cordma, c.raw, c.above());
      }
    }
  }
  if (json_to == "-") {
    std::cout << out.dump(2) << '\n';
  } else if (!json_to.empty() && !(std::ofstream(json_to) << out.dump(2) << '\n')) {
    fail("cannot write " + json_to);
  }
  if (!within)
    fail("that is more than " + std::to_string(static_cast<int>(most)) + " beyond raw verbs");
  return 0;
}
