// One thread's queue pairs, listeners and events over shared memory.
#pragma once

#include <cordma/net/transport/reporting_adapter.hpp>
#include <cordma/net/transport/shm/shm_domain.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/net/transport/socket_set.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace cordma::transport::shm {

class shm_listener;

// A client that has sent hello and has no answer yet.
struct connect_request {
  socket_fd socket;
  std::array<unique_fd, most_packet_fds> fds;
  introduction hello{};
  peer_identity who;
  shm_listener* from = nullptr;
  std::string path;
};

class shm_adapter final : public reporting_adapter {
 public:
  [[nodiscard]] static result<std::unique_ptr<adapter>> open(std::shared_ptr<shm_domain> of,
                                                             reactor& home);
  shm_adapter(std::shared_ptr<shm_domain> of, reactor& home, unique_fd watched, unique_fd doorbell,
              unique_fd page_fd, mapped_view page);
  ~shm_adapter() override;

  std::size_t poll(std::span<completion> out, bool& progressed) noexcept override;
  void release_arrived() noexcept override;
  cm_event next_event() override;
  [[nodiscard]] int wait_fd() const noexcept override { return sockets_.fd(); }
  [[nodiscard]] bool edge_triggered() const noexcept override { return true; }
  arm_state arm() noexcept override;
  void disarm() noexcept override;
  result<std::unique_ptr<listener>> listen(const address& where) override;
  result<std::unique_ptr<queue_pair>> connect(const address& to, const queue_pair_options& options,
                                              std::span<const std::byte> private_data) override;
  result<std::unique_ptr<queue_pair>> accept(std::uint64_t request,
                                             const queue_pair_options& options,
                                             std::span<const std::byte> private_data) override;
  result<void> reject(std::uint64_t request, std::span<const std::byte> private_data) override;
  result<std::uint64_t> hand_over(std::uint64_t request, adapter& target) override;
  result<std::unique_ptr<queue_pair>> create(const queue_pair_options& options) override;

  // For listeners and queue pairs.
  [[nodiscard]] shm_domain& of() noexcept { return *domain_; }
  [[nodiscard]] reactor& home() noexcept { return home_; }
  [[nodiscard]] int doorbell_fd() const noexcept { return doorbell_.get(); }
  [[nodiscard]] int page_fd() const noexcept { return page_fd_.get(); }
  // Besides the sockets, it contains the doorbell.
  [[nodiscard]] socket_set& sockets() noexcept { return sockets_; }
  void attach(shm_queue_pair& q);
  void detach(shm_queue_pair& q) noexcept;
  // Changes the number of expected packets; sockets are polled often while it is not 0.
  void expect(int more) noexcept;
  // Polls `t` before all others: a shared receive is available for it.
  void call(turn& t) noexcept {
    called_.push_back(t);
    hurry();
  }
  void on_reports() noexcept override { hurry(); }
  // Throws std::bad_alloc.
  connect_request& add_request(std::unique_ptr<connect_request> r);
  // Throws std::bad_alloc. Takes `socket` if the connection is established.
  result<std::unique_ptr<queue_pair>> accept_from(socket_fd& socket, const introduction& hello,
                                                  std::span<unique_fd> fds,
                                                  const peer_identity& who, const std::string& path,
                                                  const queue_pair_options& options,
                                                  std::span<const std::byte> data);
  void drop_requests(const shm_listener* from) noexcept;

 private:
  [[nodiscard]] bool look_at_sockets() noexcept;
  void look(bool& progressed) noexcept;
  [[nodiscard]] unsigned polls_between_looks() const noexcept;
  void sweep() noexcept;
  [[nodiscard]] std::uint64_t taken() const noexcept;
  [[nodiscard]] bool may_spare_fences() const noexcept;
  void spare_fences() noexcept;
  void count_polls() noexcept;
  void plan_polls() noexcept;
  void hurry() noexcept;
  std::size_t poll_on(std::span<completion> out, bool& progressed, std::size_t i) noexcept;
  std::size_t poll_slowly(std::span<completion> out, bool& progressed) noexcept;
  [[nodiscard]] bool took_in_place(const shm_queue_pair& q) noexcept;
  void release_one() noexcept;
  void release_all() noexcept;
  // These add to the `have` completions in `out`, and return the new number.
  std::size_t visit(shm_queue_pair& q, std::span<completion> out, std::size_t have,
                    bool& progressed) noexcept;
  std::size_t poll_others(std::span<completion> out, std::size_t have, bool& progressed) noexcept;
  std::size_t poll_cold(std::span<completion> out, std::size_t have, bool& progressed) noexcept;
  std::size_t poll_shared(std::span<completion> out, bool& progressed) noexcept;
  // bad_state: it is answered already, or its client has disconnected.
  [[nodiscard]] result<std::unique_ptr<connect_request>> take_request(std::uint64_t id);

  std::vector<shm_queue_pair*> pairs_;  // at least the first hot_pairs are polled every time
  std::size_t cold_at_ = 0;
  std::size_t victim_ = 0;
  // Number of pairs to poll next; all of them if it is not known which have work.
  std::size_t hot_ = 0;
  unsigned short_polls_ = 1;  // number of the next polls up to the first that is not short
  unsigned planned_polls_ = 1;
  unsigned polls_to_look_ = 1;      // as of the last plan
  std::uint64_t taken_before_ = 0;  // at the last arm()
  bool barrier_due_ = false;        // peers that did not fence must have seen `may_sleep` first
  int expecting_ = 0;
  bool real_time_ = true;
  adapter_page* page_;
  std::uint32_t naps_ = 0;
  std::shared_ptr<shm_domain> domain_;
  reactor& home_;
  socket_set sockets_;
  unique_fd doorbell_;
  unique_fd page_fd_;
  mapped_view page_view_;
  list<turn> called_;
  std::map<std::uint64_t, std::unique_ptr<connect_request>> requests_;
  std::mutex handed_mutex_;
  std::map<std::uint64_t, std::unique_ptr<connect_request>> handed_;
};

// Sends a client a refusal for lack of memory, and hangs up.
void refuse_for_memory(socket_fd& socket) noexcept;
// True if a first packet is a hello that can be answered; otherwise `answer` is the refusal with
// the reason.
[[nodiscard]] bool check_hello(received_packet& p, introduction& hello, refusal& answer) noexcept;
// Reads the terms of the peer and maps its descriptors; fails with the reason if something is
// wrong.
[[nodiscard]] result<peer_terms> read_terms(const introduction& i, std::span<unique_fd> fds,
                                            const peer_identity& who);

}  // namespace cordma::transport::shm
