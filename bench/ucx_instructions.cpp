// bench-ucx_instructions: the instructions of UCX on the paths that bench-instructions counts for
// cordma, counted in the same way.
#include "stepping/stepping.hpp"
#include "ucx_instructions/ucx_pair.hpp"

#include "common.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <regex>
#include <string>
#include <vector>

namespace {

constexpr const char* program = "bench-ucx_instructions";
constexpr int warm_rounds = 32;  // as in bench-instructions
constexpr int exit_failed = 1;
constexpr int exit_usage = 2;
constexpr int exit_cannot_count = 77;

void ignore_end(void* /*request*/, ucs_status_t /*status*/, void* /*user*/) {}

ucp_request_param_t plain() {
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK;
  p.cb.send = ignore_end;
  return p;
}

// One operation of each path.

void send_tagged(ucx::pair& two, ucx::side& from, ucx::side& to) {
  const ucp_request_param_t sending = plain();
  ucp_request_param_t receiving{};
  const ucs_status_ptr_t in =
      ucp_tag_recv_nbx(to.worker, to.in.data(), 8, 7, ~ucp_tag_t{0}, &receiving);
  const ucs_status_ptr_t out = ucp_tag_send_nbx(from.to_other, from.out.data(), 8, 7, &sending);
  two.wait(in, to);
  two.wait(out, from);
}

void tag_round_trip(ucx::pair& two) {
  send_tagged(two, two.near, two.far);
  send_tagged(two, two.far, two.near);
}

void send_active(ucx::pair& two, ucx::side& from, const ucx::side& to) {
  const ucp_request_param_t sending = plain();
  const int before = to.active_messages;
  const ucs_status_ptr_t out =
      ucp_am_send_nbx(from.to_other, ucx::am_id, nullptr, 0, from.out.data(), 8, &sending);
  two.progress_until(to, [&to, before] { return to.active_messages != before; });
  two.wait(out, from);
}

void am_round_trip(ucx::pair& two) {
  send_active(two, two.near, two.far);
  send_active(two, two.far, two.near);
}

void send_stream(ucx::pair& two, ucx::side& from, ucx::side& to) {
  const ucp_request_param_t sending = plain();
  ucp_request_param_t receiving{};
  receiving.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  receiving.flags = UCP_STREAM_RECV_FLAG_WAITALL;
  std::size_t came = 0;
  const ucs_status_ptr_t in =
      ucp_stream_recv_nbx(to.to_other, to.in.data(), to.in.size(), &came, &receiving);
  const ucs_status_ptr_t out =
      ucp_stream_send_nbx(from.to_other, from.out.data(), from.out.size(), &sending);
  two.wait(in, to);
  two.wait(out, from);
}

void stream_round_trip(ucx::pair& two) {
  send_stream(two, two.near, two.far);
  send_stream(two, two.far, two.near);
}

void write_and_flush(ucx::pair& two) {
  const ucp_request_param_t p = plain();
  two.wait(ucp_put_nbx(two.near.to_other, two.near.out.data(), 64, two.remote_address,
                       two.remote_key, &p),
           two.near);
  two.wait(ucp_ep_flush_nbx(two.near.to_other, &p), two.near);
}

void read(ucx::pair& two) {
  const ucp_request_param_t p = plain();
  two.wait(ucp_get_nbx(two.near.to_other, two.near.in.data(), 64, two.remote_address,
                       two.remote_key, &p),
           two.near);
}

template <ucp_atomic_op_t Operation>
void atomic(ucx::pair& two) {
  std::uint64_t operand = Operation == UCP_ATOMIC_OP_ADD ? 1 : 0;
  std::uint64_t before = 0;
  ucp_request_param_t p = plain();
  p.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_DATATYPE;
  p.reply_buffer = &before;
  p.datatype = ucp_dt_make_contig(sizeof operand);
  two.wait(ucp_atomic_op_nbx(two.near.to_other, Operation, &operand, 1, two.remote_address,
                             two.remote_key, &p),
           two.near);
}

void idle_turn(ucx::pair& two) { ucp_worker_progress(two.near.worker); }

struct shape {
  const char* name;
  void (*once)(ucx::pair&);
};
constexpr std::array shapes = {
    shape{"tag_round_trip_8", tag_round_trip},
    shape{"am_round_trip_8", am_round_trip},
    shape{"stream_4096", stream_round_trip},
    shape{"write_flush_64", write_and_flush},
    shape{"read_64", read},
    shape{"fetch_add", atomic<UCP_ATOMIC_OP_ADD>},
    shape{"compare_swap", atomic<UCP_ATOMIC_OP_CSWAP>},
    shape{"idle_turn", idle_turn},
};

// A transport by cordma's name and by its name in UCX_TLS.
struct transport {
  const char* name;
  const char* tls;
};
constexpr std::array transports = {transport{"shm", "posix,self"}, transport{"tcp", "tcp,self"}};

struct options {
  int operations = 30;
  int rounds = 3;
  std::string only;
  std::string json_to;
};

double count(const transport& over, const shape& s, const options& o) {
  const auto rounds = [&over, &s, &o] {
    ucx::pair two(over.tls);
    tag_round_trip(two);  // connects both directions
    for (int round = -warm_rounds; round < o.rounds; ++round) {
      if (round >= 0) stepping::begin();
      for (int i = 0; i < o.operations; ++i) s.once(two);
      if (round >= 0) stepping::end();
    }
  };
  std::vector<double> each;
  for (const std::uint64_t n : stepping::count(rounds).rounds) {
    each.push_back(static_cast<double>(n) / o.operations);
  }
  return bench::median(each);
}

int run(const options& o, const std::regex& wanted) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  std::FILE* const table = o.json_to == "-" ? stderr : stdout;
  std::fprintf(table, "UCX %s\n", ucp_get_version_string());
  for (const transport& over : transports) {
    for (const shape& s : shapes) {
      const std::string name = std::string(over.name) + "." + s.name;
      if (!std::regex_search(name, wanted)) continue;
      const double median = count(over, s, o);
      figures[name] = {{"median", median}};
      std::fprintf(table, "%-22s %9.1f\n", name.c_str(), median);
      std::fflush(table);
    }
  }
  if (figures.empty()) {
    std::fprintf(stderr, "%s: no path is called '%s'\n", program, o.only.c_str());
    return exit_usage;
  }
  const nlohmann::ordered_json all = {{"ucx", ucp_get_version_string()},
                                      {"rounds", o.rounds},
                                      {"operations", o.operations},
                                      {"instructions_per_operation", figures}};
  if (o.json_to.empty()) return 0;
  std::ofstream file;
  if (o.json_to != "-") file.open(o.json_to);
  std::ostream& out = o.json_to == "-" ? std::cout : file;
  out << all.dump(2) << '\n' << std::flush;
  if (out) return 0;
  std::fprintf(stderr, "%s: cannot write %s\n", program, o.json_to.c_str());
  return exit_failed;
}

int start(int argc, char** argv) {
  CLI::App app("How many instructions in user space UCX takes for an operation, path by path.",
               program);
  options o;
  app.add_option("--only", o.only, "the paths whose name this regular expression is found in")
      ->type_name("REGEX");
  app.add_option("-n,--operations", o.operations, "operations of a round")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "rounds, after 32 that are not counted")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--json", o.json_to, "write the figures as JSON; - is standard output")
      ->type_name("FILE|-");
  app.footer(
      "The paths are called as bench-instructions calls cordma's, and are counted as it counts: "
      "two workers\n"
      "of two contexts in one process, progressed in turn, the median of the rounds. UCX's "
      "environment\n"
      "counts, save UCX_TLS. Ends with 0; with 1 where UCX failed; with 2 where the options are "
      "wrong;\n"
      "with 77 where nothing can be counted.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "%s: %s; --help explains the options\n", program, e.what());
    return exit_usage;
  }
  if (const char* const missing = stepping::missing(); missing != nullptr) {
    std::fprintf(stderr, "%s: %s\n", program, missing);
    return exit_cannot_count;
  }
  try {
    return run(o, std::regex(o.only));
  } catch (const std::regex_error&) {
    std::fprintf(stderr, "%s: --only: '%s' is no regular expression\n", program, o.only.c_str());
    return exit_usage;
  }
}

}  // namespace

int main(int argc, char** argv) try { return start(argc, argv); } catch (const std::exception& e) {
  std::fprintf(stderr, "%s: %s\n", program, e.what());
  return exit_failed;
}
