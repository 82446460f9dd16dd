// bench-verbs_instructions: counts the instructions in user space of an operation beyond those of
// raw verbs. Both run on a device that answers at once and is not counted, so that no instruction
// is part of waiting, of a driver or of the kernel.
#include <infiniband/verbs.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stepping/stepping.hpp"
#include "verbs_instructions/on_cordma.hpp"
#include "verbs_stand_in/device.hpp"

namespace {

using namespace stand_in;

// ---- on raw verbs ----

// As in tests/soft-roce/raw_peer.c: the minimum of a program on libibverbs for the same operation.
void post(ibv_qp* qp, ibv_sge& memory, what op) {
  int code = 0;
  if (op == what::recv) {
    ibv_recv_wr wr{};
    wr.sg_list = &memory;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    code = ibv_post_recv(qp, &wr, &bad);
  } else {
    ibv_send_wr wr{};
    wr.sg_list = &memory;
    wr.num_sge = 1;
    wr.opcode = op == what::write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (op == what::write) {
      wr.wr.rdma.remote_addr = memory.addr;
      wr.wr.rdma.rkey = memory.lkey;
    }
    ibv_send_wr* bad = nullptr;
    code = ibv_post_send(qp, &wr, &bad);
  }
  if (code != 0) throw std::runtime_error("a request was refused");
}

void await_one(ibv_cq* cq, what op) {
  ibv_wc done;
  while (ibv_poll_cq(cq, 1, &done) == 0) continue;
  const bool arrived = done.opcode == IBV_WC_RECV;
  if (done.status != IBV_WC_SUCCESS || arrived != (op == what::recv)) {
    throw std::runtime_error("a request failed");
  }
}

void post_and_poll(ibv_qp* qp, ibv_sge& memory, const plan& p) {
  for (int i = 0; i < p.operations; i += p.at_a_time) {
    for (int k = 0; k < p.at_a_time; ++k) post(qp, memory, p.op);
    for (int k = 0; k < p.at_a_time; ++k) await_one(qp->send_cq, p.op);
  }
}

void count_raw(const plan& p) {
  ibv_pd* const pd = make_device();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = ibv_create_cq(pd->context, 2 * side_by_side, nullptr, nullptr, 0);
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd, &init);
  std::array<std::byte, bytes> payload{};
  ibv_sge memory{reinterpret_cast<std::uintptr_t>(payload.data()), bytes, 1};
  post_and_poll(qp, memory, p);
  stepping::begin();
  post_and_poll(qp, memory, p);
  stepping::end();
}

// ---- counting ----

struct figures {
  double cordma = 0;
  double raw = 0;
  [[nodiscard]] double above() const noexcept { return cordma - raw; }
};

// The instructions of cordma are added to `where`.
figures count(const plan& p, stepping::profile& where) {
  const stepping::counted cordma = count_cordma(p);
  const stepping::counted raw = stepping::count([&p] { count_raw(p); }, is_device_code);
  for (const auto& [address, times] : cordma.where) where[address] += times;
  const double each = 1.0 / p.operations;
  return {.cordma = static_cast<double>(cordma.rounds.front()) * each,
          .raw = static_cast<double>(raw.rounds.front()) * each};
}

bool write_file(const std::string& name, const std::function<void(std::ostream&)>& content) {
  if (name == "-") {
    content(std::cout);
    return true;
  }
  std::ofstream file(name);
  content(file);
  file.flush();
  if (!file) std::fprintf(stderr, "bench-verbs_instructions: cannot write %s\n", name.c_str());
  return static_cast<bool>(file);
}

struct shape {
  const char* name;
  int at_a_time;
  bool keeps;
};
constexpr std::array shapes = {shape{"1", 1, false}, shape{"64", side_by_side, false},
                               shape{"64_kept", side_by_side, true}};

bool is_among(const std::vector<std::string>& wanted, const std::string& name) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

constexpr int cannot_count = 77;  // the exit code that marks a test as skipped

struct options {
  int operations = 640;
  std::vector<std::string> ops;
  std::vector<std::string> shapes;
  std::string json_to;
  std::string profile_to;
};

bool run(const options& o) {
  nlohmann::json out = {{"bytes", bytes}, {"operations", o.operations}};
  stepping::profile where;
  if (o.json_to != "-")
    std::printf("%-5s %9s %9s %9s %9s\n", "", "at a time", "cordma", "raw", "above");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i];
    if (!is_among(o.ops, name)) continue;
    for (const shape& as : shapes) {
      if (!is_among(o.shapes, as.name)) continue;
      const int rounds = (o.operations + as.at_a_time - 1) / as.at_a_time;
      const figures c = count({.op = static_cast<what>(i),
                               .operations = rounds * as.at_a_time,
                               .at_a_time = as.at_a_time,
                               .keeps = as.keeps},
                              where);
      out[name][as.name] = {{"cordma", c.cordma}, {"raw", c.raw}, {"above", c.above()}};
      if (o.json_to != "-") {
        std::printf("%-5s %9s %9.1f %9.1f %9.1f\n", name.c_str(), as.name, c.cordma, c.raw,
                    c.above());
      }
    }
  }
  bool written = true;
  if (!o.json_to.empty()) {
    written = write_file(o.json_to, [&out](std::ostream& to) { to << out.dump(2) << '\n'; });
  }
  if (!o.profile_to.empty()) {
    written =
        write_file(o.profile_to, [&where](std::ostream& to) { stepping::write(to, where); }) &&
        written;
  }
  return written;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "How many instructions in user space a write, a send and a receive of 64 bytes take beyond "
      "raw\n"
      "verbs: awaited by cordma in polling mode, and posted and polled by hand, on a device that "
      "answers\n"
      "at once and is not counted. Needs no RDMA device.");
  options o;
  app.add_option("-n,--operations", o.operations, "operations that are counted")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--op", o.ops, "only these: write, send, recv")
      ->check(CLI::IsMember({"write", "send", "recv"}));
  app.add_option(
         "--shape", o.shapes,
         "only these: 1 (made, awaited, gone), 64 (made and started, then awaited), 64_kept "
         "(the same objects again and again)")
      ->check(CLI::IsMember({"1", "64", "64_kept"}));
  app.add_option("--json", o.json_to, "write JSON to this file, - for standard output");
  app.add_option(
      "--profile", o.profile_to,
      "write how often cordma carried out which instruction: times, file and address, as "
      "addr2line takes them");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (const char* const missing = stepping::missing(); missing != nullptr) {
    std::fprintf(stderr, "bench-verbs_instructions: %s\n", missing);
    return cannot_count;
  }
  try {
    return run(o) ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench-verbs_instructions: %s\n", e.what());
    return 1;
  }
}
