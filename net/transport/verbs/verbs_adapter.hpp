// One thread's completion queues, connections and events.
#pragma once

#include <cordma/net/transport/verbs/address_handles.hpp>
#include <cordma/net/transport/verbs/completion_outlet.hpp>
#include <cordma/net/transport/verbs/connecting.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/lookout.hpp>
#include <cordma/net/transport/verbs/pair_table.hpp>
#include <cordma/net/transport/verbs/polling.hpp>
#include <cordma/net/transport/verbs/told_events.hpp>
#include <cordma/net/transport/verbs/verbs_domain.hpp>
#include <cordma/runtime/list.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace cordma::transport::verbs {

class verbs_receive_queue;
class control_port;

struct pair_link : list_node {
  explicit pair_link(verbs_pair& p) noexcept : owner(&p) {}
  verbs_pair* owner;
};

// The completions of one batch that are not reported yet.
struct completion_batch {
  const ibv_wc* next;
  const ibv_wc* end;
};

// Reserved memory for an event that must be reported even if no memory is left.
using event_place = std::list<cm_event>;
[[nodiscard]] inline event_place reserve_event() { return event_place(1); }

struct queue_link : list_node {
  explicit queue_link(verbs_receive_queue& q) noexcept : owner(&q) {}
  verbs_receive_queue* owner;
};

// A completion queue, and the number of its promised entries.
struct completion_queue {
  explicit completion_queue(polled_queue q) noexcept : queue(std::move(q)) {}
  polled_queue queue;
  std::uint32_t promised = 0;
  unsigned unacknowledged = 0;  // events read from the channel
  bool dead = false;            // the device reported its failure: it gets no new users
  // Set while an earlier completion of this batch is reported, which may drain the queue.
  completion_batch* telling = nullptr;
};

// Requests of one queue pair that are posted with one doorbell.
struct post_list {
  verbs_pair* owner = nullptr;
  std::uint32_t first = 0;  // running number of the first request
  std::size_t count = 0;
  std::array<ibv_send_wr, post_list_length> requests{};
  std::array<ibv_sge, post_list_length * most_segments> segments{};
};

// Bound to one thread, except tell().
class verbs_adapter final : public adapter {
 public:
  verbs_adapter(std::shared_ptr<verbs_domain> owner, reactor& home);
  ~verbs_adapter() override;
  [[nodiscard]] result<void> prepare();

  [[nodiscard]] std::size_t poll(std::span<completion> out, bool& progressed) noexcept override;
  cm_event next_event() override;
  [[nodiscard]] int wait_fd() const noexcept override { return epoll_.get(); }
  [[nodiscard]] bool edge_triggered() const noexcept override { return false; }
  arm_state arm() noexcept override;
  void disarm() noexcept override { look_.wake(); }
  result<void> wake_for(wake_reason reason) override {
    notices_.wake_for = reason;
    return {};
  }

  result<std::unique_ptr<listener>> listen(const address& where) override {
    return listen_as(where, {});
  }
  result<std::unique_ptr<listener>> listen_as(const address& where, const listening& how) override;
  result<std::unique_ptr<queue_pair>> connect(const address& to, const queue_pair_options& options,
                                              std::span<const std::byte> private_data) override;
  result<std::unique_ptr<queue_pair>> accept(std::uint64_t request,
                                             const queue_pair_options& options,
                                             std::span<const std::byte> private_data) override;
  result<void> reject(std::uint64_t request, std::span<const std::byte> private_data) override;
  result<std::uint64_t> hand_over(std::uint64_t request, adapter& target) override;
  result<cm_event> adopt(rdma_cm_event* event, peer_kind whom) override;
  result<std::unique_ptr<queue_pair>> create(const queue_pair_options& options) override;
  result<std::unique_ptr<receive_queue>> make_receive_queue(std::uint32_t depth,
                                                            std::uint32_t max_segments) override;

  // For a child of fork(); no other function may be called afterwards.
  void close_descriptors() noexcept;
  // Callable from any thread: an asynchronous event of the device that concerns this adapter.
  void tell(const async_event& event) noexcept { told_.push(event); }
  // Drops events of a queue pair that was removed from the device: its number may be reused soon.
  void drop_told(std::uint32_t pair) noexcept;
  void drop_told(const ibv_srq* queue) noexcept;

  // For queue pairs, listeners and the control port of this adapter.
  [[nodiscard]] reactor& home() noexcept { return home_; }
  [[nodiscard]] verbs_domain& owner() noexcept { return *owner_; }
  [[nodiscard]] rdma_event_channel* cm() noexcept { return cm_.get(); }
  // Reserves entries for this number of completions at a time, so that no completion queue ever
  // overflows. full, no_memory.
  [[nodiscard]] result<ibv_cq*> promise(std::uint32_t completions);
  void release(ibv_cq* queue, std::uint32_t completions) noexcept;
  // Takes all completions from the queue, so that those of a destroyed queue pair occupy no
  // promised entries. May be called while one of its completions is reported: the rest of that
  // batch is handled first.
  void drain(ibv_cq* queue) noexcept;
  [[nodiscard]] pair_table& pairs() noexcept { return pairs_; }
  // From now on outlet() has no space until the marked completions were returned: none overtakes
  // them.
  void mark_completed(pair_link& l) noexcept {
    if (!l.linked()) completed_.push_back(l);
    outlet_.shut();
    look_.stir();
  }
  // receive_queue.cpp
  [[nodiscard]] table_place enter(verbs_receive_queue& q);
  void leave(const verbs_receive_queue& q, const table_place& at) noexcept;
  void mark_completed(queue_link& l) noexcept {
    if (!l.linked()) completed_shared_.push_back(l);
    look_.stir();
  }
  // Null if it is no queue of this adapter.
  [[nodiscard]] verbs_receive_queue* find(const receive_queue* q) noexcept;
  void end_users_of(const verbs_receive_queue& q, const failure& why) noexcept;

  void push_event(cm_event event);
  // REQUIRES a reserved event that was not used.
  void push_event(event_place& reserved, cm_event event) noexcept;
  void drop_events(const queue_pair* pair, const listener* from) noexcept;
  void drop_events(const receive_queue& queue) noexcept;
  // While an operation waits for rdma_cm, every poll looks at it.
  void add_waiting(int change) noexcept { look_.add_waiting(change); }
  // Has space while poll() runs and completions may be reported directly.
  [[nodiscard]] completion_outlet& outlet() noexcept { return outlet_; }
  // Returns the list of this queue pair; posts that of another one first.
  [[nodiscard]] post_list& list_for(verbs_pair& p) noexcept;
  [[nodiscard]] bool has_list() const noexcept { return staged_.owner != nullptr; }
  [[nodiscard]] bool has_list(const verbs_pair& p) const noexcept { return staged_.owner == &p; }
  void drop_list(const verbs_pair& p) noexcept {
    if (has_list(p)) staged_.owner = nullptr;
  }
  // Null if the device refuses one; why_no_control() is the reason.
  [[nodiscard]] control_port* control();
  // Null if it was never created.
  [[nodiscard]] control_port* control_there_is() const noexcept { return control_.get(); }
  // Handles the failure of a completion queue: all its queue pairs end, and later ones use another
  // queue.
  void bury(const void* queue) noexcept;
  [[nodiscard]] const failure& why_no_control() const noexcept { return *no_control_; }
  // A handle to the control port of a peer; the caller holds it until let_go(). Null if the device
  // refuses.
  [[nodiscard]] address_handle* hold_handle(const ibv_ah_attr& where) noexcept;
  void let_go(address_handle& h) noexcept;
  // A handle for an answer to an unknown peer: one of a recent connection, or to this host. Null
  // otherwise: the address may be forged, and resolving its neighbour takes up to a second.
  [[nodiscard]] address_handle* known_handle(const datagram_address& peer) noexcept;
  // Throws std::bad_alloc.
  void open(verbs_listener& l);
  void close(const verbs_listener& l, std::vector<owned_id> ids) noexcept;
  [[nodiscard]] verbs_pair* find(std::uint32_t number) noexcept { return pairs_.find(number); }

 private:
  static constexpr unsigned acknowledged_at_once = 64;
  static constexpr std::uint64_t watch_channel = 0, watch_cm = 1, watch_device = 2, watch_told = 3;

  // Notifications requested from the completion queues; each includes those before it.
  enum class notice : std::uint8_t { none, solicited, everything };

  [[nodiscard]] result<void> watch(int fd, std::uint64_t what) noexcept;
  void watch_no_more(std::uint64_t what) noexcept;
  [[nodiscard]] notice notice_wanted() const noexcept;
  bool look() noexcept;
  // True if there was a notification.
  bool read_channel() noexcept;
  bool read_cm() noexcept;
  void read_told() noexcept;
  void on_told(const async_event& e) noexcept;
  [[nodiscard]] owned_id stand_at_device() noexcept;
  void on_removal() noexcept;
  // Prevents new operations on the device, and ends listeners.
  void lose_device() noexcept;
  void report(const async_event& e) noexcept;
  void on_request(const cm_news& news, verbs_listener* from) noexcept;
  // Makes a connect_request of it; `user` is the program's private data.
  [[nodiscard]] cm_event take_in(owned_id id, const cm_news& news, peer_kind whom,
                                 const hello& theirs, std::span<const std::byte> user,
                                 verbs_listener* from);
  bool take_from(completion_queue& q) noexcept;
  std::size_t take_with_care(completion_queue& q) noexcept;
  [[nodiscard, gnu::noinline]] const ibv_wc* tell_with_care(completion_queue& q,
                                                            completion_batch rest) noexcept;
  void on_unusual(const ibv_wc& wc) noexcept;
  void on_own_completion(const ibv_wc& wc) noexcept;
  [[gnu::noinline]] void begin_poll(std::span<completion> out, bool& progressed) noexcept;
  [[nodiscard, gnu::noinline]] std::size_t end_poll(std::span<completion> out,
                                                    bool& progressed) noexcept;
  [[nodiscard]] std::size_t hand_out(std::span<completion> out) noexcept;
  void on_shared_receive(const work_id& id, const ibv_wc& wc) noexcept;
  void on_told_of_shared(const async_event& e) noexcept;
  [[nodiscard]] std::unique_ptr<incoming> claim(std::uint64_t request) noexcept;
  [[nodiscard]] requests_so_far control_requests() const noexcept;
  [[nodiscard]] result<completion_queue*> make_queue(std::uint32_t least);
  [[nodiscard]] bool grow(completion_queue& q, std::uint32_t completions) noexcept;
  [[nodiscard]] std::uint32_t most_entries() const noexcept {
    return static_cast<std::uint32_t>(owner_->hardware().attributes.orig_attr.max_cqe);
  }

  std::shared_ptr<verbs_domain> owner_;
  reactor& home_;
  unique_fd epoll_;
  owned<ibv_comp_channel> channel_;
  owned_channel cm_;
  owned_id stand_;               // bound to an address of the device, to receive its removal event
  std::optional<failure> lost_;  // reason why the device accepts no new operations
  std::vector<std::unique_ptr<completion_queue>> queues_;
  struct notices {
    notice asked = notice::none;
    wake_reason wake_for = wake_reason::everything;
    bool taken_since = false;  // completions were taken since the request
  };
  notices notices_;
  lookout look_;
  pair_table pairs_;
  completion_outlet outlet_;
  list<pair_link> completed_;
  struct shared_seat {
    verbs_receive_queue* queue = nullptr;
    std::uint32_t generation = 0;
  };
  std::vector<shared_seat> shared_seats_;
  list<queue_link> completed_shared_;
  post_list staged_;
  std::list<cm_event> events_;
  std::unordered_map<std::uint64_t, std::unique_ptr<incoming>> incoming_;
  std::unordered_map<std::uint64_t, verbs_listener*> listeners_;
  std::uint64_t last_listener_ = 0;
  address_handles handles_;
  std::unique_ptr<control_port> control_;
  std::optional<failure> no_control_;
  told_events told_;
};

class verbs_listener final : public listener {
 public:
  verbs_listener(verbs_adapter& home, std::uint64_t number, peer_kind whom,
                 std::vector<owned_id> ids, address bound);
  ~verbs_listener() override;
  [[nodiscard]] const address& bound() const noexcept override { return bound_; }
  [[nodiscard]] std::vector<address> bound_all() const override;
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] peer_kind whom() const noexcept { return whom_; }
  void end(failure why) noexcept;

 private:
  verbs_adapter& home_;
  std::uint64_t number_;
  peer_kind whom_;
  std::vector<owned_id> ids_;  // one per address of the name
  address bound_;
  event_place end_place_ = reserve_event();
};

}  // namespace cordma::transport::verbs
