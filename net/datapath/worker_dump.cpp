// The report of a Worker, a part of the report of its reactor: see reactor::dump(). All of it may
// run in a signal handler.
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/runtime/dump_writer.hpp>

#include <array>

namespace cordma::detail {
namespace {

constexpr const char* in_change = "the list was just being changed";
constexpr std::size_t state_count = 4;
constexpr std::uint64_t most_idle_endpoints = 16;  // that get a separate line

struct waiting_requests {
  std::uint64_t count = 0;
  bool whole = true;
};

waiting_requests count(list<post_base>& waiting) noexcept {
  waiting_requests w;
  w.whole = waiting.look_through([&w](post_base&) { ++w.count; });
  return w;
}

void print_waiting(dump_writer& out, request_line& queue, reactor& home) noexcept {
  const waiting_requests w = count(queue.waiting());
  if (!w.whole) {
    out << " (" << in_change << ")";
  } else if (w.count != 0) {
    out << " and " << w.count << " that wait for room since "
        << home.since(queue.waited_for_since());
  }
}

const char* name_of(transport::cm_event::type what) noexcept {
  using type = transport::cm_event::type;
  switch (what) {
    case type::none: break;
    case type::connect_request: return "connect_request";
    case type::established: return "established";
    case type::rejected: return "rejected";
    case type::failed: return "failed";
    case type::disconnected: return "disconnected";
    case type::resolved: return "resolved";
    case type::device: return "device";
    case type::listener_ended: return "listener_ended";
    case type::receives_low: return "receives_low";
    case type::last_receive: return "last_receive";
  }
  return "none";
}

}  // namespace

worker_core::section::section(worker_core& w) noexcept
    : report_section([](report_section& s, dump_writer& out) noexcept {
        static_cast<section&>(s).owner.dump(out);
      }),
      owner(w) {}

worker_core::oldest worker_core::oldest_of(endpoint_core& e) noexcept {
  oldest found;
  // By difference, because the time wraps around.
  const auto take = [&found](const char* name, coarse_time since) {
    const bool is_older = static_cast<std::int32_t>(since - found.since) < 0;
    if (found.name == nullptr || is_older) found = {.name = name, .since = since};
  };
  for (std::uint32_t i = 0; i < slots_; ++i) {
    const slot& s = at(i);
    if (s.endpoint != &e || s.arrived) continue;
    take(s.op != nullptr ? s.op->op_name() : "request left behind", s.since);
  }
  static_cast<void>(
      e.look_through_held([&take](const post_base& op) { take(op.op_name(), op.held_since()); }));
  return found;
}

void endpoint_core::dump_queues(dump_writer& out) noexcept {
  out << "    endpoint " << static_cast<const void*>(this) << ": " << name(state());
  // An endpoint without a queue pair has no transport yet, or none any more.
  if (pair_ != nullptr) out << " by " << transport::name(route_.caps->transport);
  const failure* const why = cause().get();
  if (why != nullptr) out << " (" << name(why->code()) << ")";
  out << ", sends " << sends_.in_flight() + traffic_.in_flight << " of "
      << sends_.depth() + traffic_.sends;
  print_waiting(out, sends_, *home_);
  out << ", receives " << recvs_.in_flight() << " of " << recvs_.depth();
  print_waiting(out, recvs_, *home_);
}

bool endpoint_core::is_idle() noexcept {
  return inflight() == 0 && state() == endpoint_state::connected && !sends_.is_waited_for() &&
         !recvs_.is_waited_for() && frames() == nullptr;
}

void worker_core::dump_endpoint(dump_writer& out, endpoint_core& e) noexcept {
  e.dump_queues(out);
  if (growing_) {
    out << ", requests just being changed";
  } else if (const oldest first = oldest_of(e); first.name != nullptr) {
    out << ", the oldest a " << first.name << " of " << home_.since(first.since) << " ago";
  }
  if (e.frames() != nullptr) e.frames()->dump(out);
  out << "; " << e.counters().sends << " sends, " << e.counters().recvs << " receives in all";
  out.end_line();
}

// Endpoints that wait come first. Lines are left for the report of the tasks.
void worker_core::dump(dump_writer& out) noexcept {
  std::uint64_t gone = 0;
  std::uint64_t all = 0;
  std::uint64_t idle = 0;
  std::array<std::uint64_t, state_count> left_out{};
  std::uint64_t more = 0;
  bool whole = endpoints_.look_through([&all](endpoint_core&) { ++all; });
  const bool graveyard_whole = graveyard_.look_through([&gone](endpoint_core&) { ++gone; });
  out << "  Worker " << static_cast<const void*>(this) << ": " << all << " endpoints, "
      << std::uint64_t{listeners_.size()} << " listeners, ";
  if (graveyard_whole) {
    out << gone << " gone with requests in flight, ";
  }
  out << stale_completions_ << " stale completions";
  out.end_line();
  const auto show = [&, this](endpoint_core& e, bool has_line) {
    if (has_line && out.lines_left() > 2) {
      dump_endpoint(out, e);
    } else {
      ++left_out[static_cast<std::size_t>(e.state())];
      ++more;
    }
  };
  const auto show_waiting = [&show](endpoint_core& e) {
    if (!e.is_idle()) show(e, true);
  };
  const auto show_idle = [&show, &idle](endpoint_core& e) {
    if (e.is_idle()) show(e, idle++ < most_idle_endpoints);
  };
  whole = endpoints_.look_through(show_waiting) && endpoints_.look_through(show_idle) && whole;
  if (!whole) {
    out << "    endpoints: " << in_change;
    out.end_line();
  }
  if (more == 0) return;
  out << "    " << more << " more endpoints:";
  for (std::size_t i = 0; i < state_count; ++i) {
    if (left_out[i] != 0) out << " " << left_out[i] << " " << name(static_cast<endpoint_state>(i));
  }
  out.end_line();
}

void worker_core::trace_post(const endpoint_core& e, const post_base& op) noexcept {
  trace_->add(trace_point::post, op.op_name(), &e, op.total_);
}

void worker_core::trace_frame(const endpoint_core& e,
                              const transport::send_request& frame) noexcept {
  trace_->add(trace_point::post, "frame", &e, frame.segments[0].length);
}

void worker_core::trace_event(const transport::cm_event& event) noexcept {
  trace_->add(trace_point::event, name_of(event.what), event.pair);
}

void worker_core::trace_completions(adapter_poller& via,
                                    std::span<const transport::completion> all) noexcept {
  for (const transport::completion& c : all) {
    const std::uint32_t index = index_of(c.id);
    const bool known = index < slots_ && at(index).id == c.id;
    trace_->add(trace_point::completion, via.name(), known ? at(index).endpoint : nullptr,
                c.byte_len);
  }
}

}  // namespace cordma::detail
