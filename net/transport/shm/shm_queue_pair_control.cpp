#include <fcntl.h>
#include <unistd.h>

#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>
#include <new>

namespace cordma::transport::shm {
namespace {

std::string versions(std::uint32_t mine, std::uint32_t theirs) {
  return "mine is " + std::to_string(mine) + ", theirs is " + std::to_string(theirs);
}

}  // namespace

void shm_queue_pair::on_ready(std::uint32_t) noexcept {
  try {
    if (handshake_.awaits_peer()) return handshake_.on_hidden_name();
    take_packets();
  } catch (const std::bad_alloc&) {
    starve();
  }
}

void shm_queue_pair::take_packets() {
  received_packet p;
  while (socket_ && !ending_.has_lost_peer()) {
    const transfer t = receive_packet(socket_.get(), p);
    if (t == transfer::again) return;
    if (t == transfer::gone) {
      lose_peer(failure::of(errc::connection_reset,
                            {peer_text(), is_up() ? " ended, or dropped the connection"
                                                  : " ended during the handshake"}));
      return;
    }
    watch_.on_sign();
    on_packet(p);
  }
}

void shm_queue_pair::on_packet(received_packet& p) {
  const header_verdict v = inspect(p.bytes());
  const bool up = is_up();
  if (v.is == header_verdict::what::version && !up) {
    fail_connecting(
        failure(errc::unsupported_version,
                "the shm protocol version differs: " + versions(wire_version, v.theirs) +
                    ": run the same release of cordma on both sides"));
    return;
  }
  if (v.is == header_verdict::what::fine && !up && v.type == packet::accept) return on_accept(p);
  if (v.is == header_verdict::what::fine && !up &&
      (v.type == packet::reject || v.type == packet::refuse || v.type == packet::mismatch)) {
    return on_refusal(v.type, p);
  }
  region_packet r{};
  fault_packet f{};
  if (v.is == header_verdict::what::fine && up) {
    switch (v.type) {
      case packet::reachable: peer_.reads_us = true; return;
      case packet::region_request:
        if (parse(p.bytes(), r)) return on_region_request(r);
        break;
      case packet::region_answer:
      case packet::region_offer:
        if (parse(p.bytes(), r)) return on_region(v.type, r, p);
        break;
      case packet::fault:
        if (parse(p.bytes(), f)) return on_fault(f);
        break;
      default: break;
    }
  }
  if (up) {
    malformed("an unknown packet");
  } else {
    fail_connecting(failure(errc::connection_aborted, "the peer's answer was no answer"));
  }
}

void shm_queue_pair::on_accept(received_packet& p) {
  introduction i{};
  if (!parse(p.bytes(), i) || p.lost_fds || p.fd_count != 3 || i.data_bytes > i.data.size()) {
    fail_connecting(p.lost_fds ? failure(errc::no_memory,
                                         "no file descriptor is left for the connection: raise "
                                         "the limit with ulimit -n")
                               : failure(errc::connection_aborted, "a malformed accept"));
    return;
  }
  result<peer_terms> terms = read_terms(i, std::span(p.fds).first(3), peer_.who);
  if (!terms) {
    fail_connecting(terms.why());
    return;
  }
  (*terms).reads_us = i.reads_peer != 0;
  std::vector<std::byte> data(i.data.begin(), i.data.begin() + i.data_bytes);
  establish(std::move(*terms), std::move(data));
  if (peer_.is_readable) {
    static_cast<void>(send_packet(socket_.get(), make_packet<bare_packet>(packet::reachable)));
  }
}

void shm_queue_pair::on_refusal(packet type, received_packet& p) {
  refusal r{};
  if (!parse(p.bytes(), r) || r.data_bytes > r.data.size()) {
    fail_connecting(failure(errc::connection_aborted, "a malformed refusal"));
    return;
  }
  const std::string said = get_text(r.text);
  if (type == packet::mismatch) {
    // `mine` and `theirs` are from the view of the other side.
    fail_connecting(
        failure(errc::unsupported_version, said + " differs: " + versions(r.theirs, r.mine) +
                                               ": run the same release of cordma on both sides"));
  } else if (type == packet::refuse) {
    const bool known = static_cast<int>(r.code) < errc_count && r.code != errc::ok;
    fail_connecting(failure::of(known ? r.code : errc::connection_aborted,
                                {peer_text(), " refused the connection: ", said}));
  } else {
    std::vector<std::byte> data(r.data.begin(), r.data.begin() + r.data_bytes);
    fail_connecting(failure::of(errc::rejected, {peer_text(), " rejected the connection"}),
                    std::move(data));
  }
}

// The owner's side of a first access: returns the region of this key, for this connection.
void shm_queue_pair::on_region_request(const region_packet& q) {
  auto a = make_packet<region_packet>(packet::region_answer);
  a.rkey = q.rkey;
  region_table& regions = domain_.regions();
  const region_table::registration held = regions.look_up(q.rkey);
  unique_fd fd;
  if (held) {
    const memory_range& range = *held.range;
    const std::uint32_t epoch = domain_.epoch(held.lkey);
    a.rights = static_cast<access>(static_cast<unsigned>(range.rights) &
                                   static_cast<unsigned>(options_.remote_access));
    const bool changes =
        has(a.rights, access::remote_write) || has(a.rights, access::remote_atomic);
    const bool reads = has(a.rights, access::remote_read);
    if (epoch % 2 == 1 && (changes || reads)) {
      a.addr = reinterpret_cast<std::uintptr_t>(range.addr);
      a.length = range.length;
      a.lkey = held.lkey;
      a.epoch = epoch;
      if (range.shared_fd >= 0 && changes) {
        fd.reset(::fcntl(range.shared_fd, F_DUPFD_CLOEXEC, 0));
      }
      if (range.shared_fd >= 0 && !changes) fd = reopen_read_only(range.shared_fd);
    }
  }
  const int raw = fd.get();
  const std::span<const int> fds = fd ? std::span(&raw, 1) : std::span<const int>{};
  transfer said = say(a, fds);
  // Without the descriptor the peer maps nothing; the kernel or this side copies.
  if (said == transfer::limit) said = say(a);
  if (said == transfer::done) return;
  if (!talk_.keep(q)) {
    malformed("too many questions at once");
    return;
  }
  settle();
}

// The socket was full. Each request is handled from scratch, because the region may be deregistered
// meanwhile.
void shm_queue_pair::flush_answers() noexcept {
  try {
    for (const region_packet& q : talk_.take_unanswered()) {
      if (is_up()) on_region_request(q);
    }
  } catch (const std::bad_alloc&) {
    starve();
  }
}

void shm_queue_pair::on_region(packet type, const region_packet& r, received_packet& p) {
  const bool answer = type == packet::region_answer;
  if (answer) {
    if (!talk_.awaits_answer(r.rkey) || !talk_.end_question()) {
      malformed("an answer that nobody asked for");
      return;
    }
    home_.expect(-1);
    if (r.length == 0) {
      if (!sends_.all_executed()) {
        fail_entry(sends_.next(), wc_status::rem_access_err,
                   "the memory key is unknown to its owner, was deregistered, or grants nothing "
                   "on this connection");
      }
      return;
    }
  }
  const bool came_whole = p.fd_count == 1 || p.lost_fds;
  if (r.lkey == 0 || r.lkey >= epoch_count || r.length == 0 || (!answer && !came_whole)) {
    malformed("a description of memory that makes no sense");
    return;
  }
  remote_region found;
  found.key = answer ? r.rkey : offer_key(r.lkey, r.epoch);
  found.addr = answer ? r.addr : 0;
  found.length = r.length;
  found.rights = r.rights;
  found.epoch = r.epoch;
  found.epoch_now =
      reinterpret_cast<const std::atomic<std::uint32_t>*>(peer_.epochs.data()) + r.lkey;
  const bool changes = has(r.rights, access::remote_write) || has(r.rights, access::remote_atomic);
  if (p.fd_count == 1 && is_safe_to_map(p.fds[0].get(), r.length)) {
    result<mapped_view> view = map_shared(
        p.fds[0].get(), r.length, answer && changes ? protection::read_write : protection::read);
    if (view) {
      found.bytes_at = view->data();
      found.mapping = std::make_shared<const mapped_view>(std::move(*view));
    }
  }
  // A limit of this process does not end the connection if the kernel can copy instead.
  if (!answer && found.bytes_at == nullptr) found.unmapped_at = r.addr;
  if (!answer && found.bytes_at == nullptr && !peer_.is_readable) {
    fail_and_tell(
        failure(errc::no_memory,
                p.lost_fds ? "no file descriptor is left to map the memory of a message: raise "
                             "the limit with ulimit -n"
                           : "the memory of a message could not be mapped: raise "
                             "vm.max_map_count or the address space limit (ulimit -v)"),
        wc_status::rem_op_err, no_position);
    return;
  }
  (answer ? regions_ : talk_.offers()).add(std::move(found));
}

// True: the peer has, or will have before the next message, the region's memory. Its epoch is
// talk_.last_epoch(). `blocked`: not yet, because the socket is full.
bool shm_queue_pair::offer(std::uint32_t lkey, const memory_range& range, bool& blocked) noexcept {
  const std::uint32_t epoch = domain_.epoch(lkey);
  if (talk_.has_offered(lkey, epoch)) return true;
  const unique_fd fd = reopen_read_only(range.shared_fd);
  if (!fd) return false;
  auto o = make_packet<region_packet>(packet::region_offer);
  o.addr = reinterpret_cast<std::uintptr_t>(range.addr);
  o.length = range.length;
  o.lkey = lkey;
  o.epoch = epoch;
  const int raw = fd.get();
  const transfer t = say(o, std::span(&raw, 1));
  if (t != transfer::done) {
    blocked = t != transfer::limit;  // otherwise the message is sent through the ring
    return false;
  }
  talk_.note_offered(lkey, epoch);
  return true;
}

void shm_queue_pair::on_fault(const fault_packet& f) {
  const bool known = static_cast<int>(f.code) < errc_count && f.code != errc::ok;
  failure why = failure::of(known ? f.code : errc::connection_reset,
                            {peer_text(), " ended the connection: ", get_text(f.text)});
  if (f.status < wc_status_count && f.status != static_cast<unsigned>(wc_status::wr_flush_err)) {
    why.with_status(f.status, 0);
    ending_.blame(f.position, static_cast<wc_status>(f.status));
  }
  lose_peer(std::move(why));
}

}  // namespace cordma::transport::shm
