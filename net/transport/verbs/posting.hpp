// Giving requests to the device: in a region of ibv_wr_* where the queue pair was made for that, else by
// ibv_post_send. Both ways take them as ibv_send_wr.
#pragma once

#include <cordma/net/transport/verbs/device.hpp>

namespace cordma::transport::verbs {

struct post_outcome {
  int code = 0;  // errno; 0: the device has them all
  // Where the code is not 0, the first that the device does not have; null: it has none of them.
  const ibv_send_wr* refused = nullptr;
};

// The send queue of a queue pair, which must outlive its use. Bound to the queue pair's thread.
class send_queue {
 public:
  send_queue() = default;
  // `extended` null: by ibv_post_send.
  // `one_segment`: for Soft-RoCE, whose ibv_wr_set_sge_list takes every segment to be as long as the
  // first, and whose ibv_wr_set_inline_data_list sends nothing: lists that have such a request go by
  // ibv_post_send.
  send_queue(ibv_qp* pair, ibv_qp_ex* extended, bool one_segment) noexcept
      : pair_(pair), extended_(extended), one_segment_(one_segment) {}

  // All of a list, behind one doorbell. A region refuses its requests together, and does not say which of
  // them is wrong. The list may go at once, and what it carries inline.
  [[nodiscard]] post_outcome post(ibv_send_wr* list) const noexcept {
    return extended_ != nullptr ? post_extended(list) : post_plain(list);
  }
  [[nodiscard]] bool is_extended() const noexcept { return extended_ != nullptr; }

 private:
  [[nodiscard]] post_outcome post_plain(ibv_send_wr* list) const noexcept {
    ibv_send_wr* refused = nullptr;
    const int code = ibv_post_send(pair_, list, &refused);
    return {code, refused};
  }
  [[nodiscard]] post_outcome post_extended(ibv_send_wr* list) const noexcept;

  ibv_qp* pair_ = nullptr;
  ibv_qp_ex* extended_ = nullptr;
  bool one_segment_ = false;
};

// A queue pair for the requests that its service has, atomics and windows where the device has them.
// Null, and errno.
[[nodiscard]] owned<ibv_qp> make_extended_pair(ibv_pd* pd, const ibv_qp_init_attr& init,
                                               const ibv_device_attr& has);

struct made_pair {
  owned<ibv_qp> pair;  // null, and errno, where the device refuses
  send_queue sends;
};
[[nodiscard]] made_pair make_queue_pair(const device& d, ibv_pd* pd, const ibv_qp_init_attr& init);

}  // namespace cordma::transport::verbs
