// The target side of a connection's one-sided operations, without I/O.
#pragma once

#include <cordma/net/transport/tcp/queues.hpp>
#include <cordma/net/transport/window_set.hpp>

namespace cordma::transport::tcp {

// The reason to refuse a request.
struct refusal {
  wc_status status = wc_status::success;
  const char* what = "";
};

// Bound to the adapter's thread.
class access_target {
 public:
  access_target(region_table& regions, const queue_pair_options& granted)
      : regions_(regions),
        windows_(regions),
        answers_(granted.read_depth),
        rights_(granted.remote_access) {}
  [[nodiscard]] window_set& windows() noexcept { return windows_; }
  [[nodiscard]] answer_queue& answers() noexcept { return answers_; }
  [[nodiscard]] const answer_queue& answers() const noexcept { return answers_; }

  // The region of a peer's request: its key may be that of a window.
  [[nodiscard]] region_table::pin pin(std::uint64_t rkey, std::uint64_t addr, std::uint64_t length,
                                      access wanted) noexcept {
    return regions_.resolve(rkey, addr, length, wanted, windows_.owner());
  }
  // Check the requests of the peer; `number` is the request's number at the peer. A read or an
  // atomic that is not refused is queued for its answer.
  [[nodiscard]] refusal write(const frame& f) noexcept {
    if (allows(f, access::remote_write)) return {};
    return {wc_status::rem_access_err, "wrote to memory it has no right to write to"};
  }
  [[nodiscard]] refusal read(const frame& f, std::uint16_t number) noexcept;
  [[nodiscard]] refusal atomic(const frame& f, std::uint16_t number) noexcept;
  void refuse(wc_status status, std::uint16_t number) noexcept {
    answers_.push({frame_type::nak, status, number, 0, 0, 0, 0});
  }
  // Called where an answer begins; `held`: the memory of a read. False if it may not be read any
  // more; the sender is then refused.
  [[nodiscard]] bool begin_answer(std::uint32_t number, region_table::pin& held) noexcept {
    return answers_[number].length == 0 || begin_read(number, held);
  }
  // Stores a word that has arrived completely. False if it may not be written any more.
  [[nodiscard]] bool store(const frame& f, std::uint64_t word) noexcept;

  // The memory registered here, for requests of this side.
  [[nodiscard]] const memory_range* local(std::uint32_t lkey) const noexcept {
    return regions_.local(lkey);
  }

 private:
  [[nodiscard]] bool begin_read(std::uint32_t number, region_table::pin& held) noexcept;
  [[nodiscard]] bool allows(const frame& f, access wanted) noexcept {
    return f.length == 0 || (has(rights_, wanted) && pin(f.rkey, f.remote_addr, f.length, wanted));
  }

  region_table& regions_;
  window_set windows_;
  answer_queue answers_;
  access rights_;
};

}  // namespace cordma::transport::tcp
