// Checks the rules of ibv_cq_ex and ibv_wr_* with a device that enforces them.
#include <doctest/doctest.h>

#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/polling.hpp>
#include <cordma/net/transport/verbs/posting.hpp>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

using namespace cordma::transport::verbs;

namespace {

// Completions to be polled; a violation of the rules fails the test.
struct strict_queue : ibv_cq_ex {
  explicit strict_queue(std::vector<ibv_wc> completions)
      : ibv_cq_ex(), waiting(std::move(completions)) {
    start_poll = [](ibv_cq_ex* q, ibv_poll_cq_attr*) { return of(q).start(); };
    next_poll = [](ibv_cq_ex* q) { return of(q).next(); };
    end_poll = [](ibv_cq_ex* q) { of(q).end(); };
    read_opcode = [](ibv_cq_ex* q) { return of(q).received("opcode").opcode; };
    read_vendor_err = [](ibv_cq_ex* q) {
      CHECK(of(q).at().status != IBV_WC_SUCCESS);
      return of(q).at().vendor_err;
    };
    read_byte_len = [](ibv_cq_ex* q) { return of(q).received("byte_len").byte_len; };
    read_imm_data = [](ibv_cq_ex* q) {
      CHECK((of(q).at().wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) != 0);
      return of(q).received("imm_data").imm_data;
    };
    read_qp_num = [](ibv_cq_ex* q) { return of(q).at().qp_num; };
    read_wc_flags = [](ibv_cq_ex* q) {
      return static_cast<unsigned>(of(q).received("wc_flags").wc_flags);
    };
    read_src_qp = [](ibv_cq_ex* q) { return of(q).datagram("src_qp").src_qp; };
    read_slid = [](ibv_cq_ex* q) { return std::uint32_t{of(q).datagram("slid").slid}; };
  }

  std::vector<ibv_wc> waiting;
  bool open = false;       // between start and end
  bool exhausted = false;  // next has reported the end
  std::size_t starts = 0;

 private:
  static strict_queue& of(ibv_cq_ex* q) { return static_cast<strict_queue&>(*q); }
  const ibv_wc& at() const {
    REQUIRE(open);
    REQUIRE_FALSE(exhausted);
    return waiting.front();
  }
  const ibv_wc& received(const char* field) const {
    CAPTURE(field);
    CHECK(at().status == IBV_WC_SUCCESS);
    CHECK(is_receive(unpack(at().wr_id).what));
    return at();
  }
  const ibv_wc& datagram(const char* field) const {
    CAPTURE(field);
    CHECK(is_datagram(unpack(at().wr_id).what));
    return received(field);
  }
  void show() {
    wr_id = waiting.front().wr_id;
    status = waiting.front().status;
  }
  int start() {
    REQUIRE_FALSE(open);
    ++starts;
    if (waiting.empty()) return ENOENT;
    open = true;
    exhausted = false;
    show();
    return 0;
  }
  int next() {
    REQUIRE(open);
    REQUIRE_FALSE(exhausted);
    if (waiting.size() == 1) {
      exhausted = true;
      return ENOENT;
    }
    waiting.erase(waiting.begin());
    show();
    return 0;
  }
  void end() {
    REQUIRE(open);
    open = false;
    waiting.erase(waiting.begin());
  }
};

ibv_wc one(work what, std::uint32_t number, ibv_wc_status status = IBV_WC_SUCCESS) {
  ibv_wc wc{};
  wc.wr_id = pack({.what = what, .number = number});
  wc.status = status;
  wc.vendor_err = 7;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = 100 + number;
  wc.qp_num = 200 + number;
  wc.src_qp = 300 + number;
  wc.slid = 9;
  return wc;
}

std::vector<ibv_wc> of_every_kind() {
  std::vector<ibv_wc> all{one(work::send, 0),
                          one(work::receive, 1),
                          one(work::receive, 2),
                          one(work::datagram_receive, 3),
                          one(work::control_send, 4),
                          one(work::control_receive, 5),
                          one(work::probe, 6, IBV_WC_RETRY_EXC_ERR),
                          one(work::receive, 7, IBV_WC_WR_FLUSH_ERR)};
  all[2].wc_flags = IBV_WC_WITH_IMM;
  all[2].imm_data = 42;
  return all;
}

}  // namespace

TEST_CASE("Q1: completions are polled by the rules, and only fields that there are, are read") {
  const std::vector<ibv_wc> all = of_every_kind();
  for (const bool one_at_a_time : {false, true}) {
    for (const std::size_t at_once :
         {std::size_t{1}, std::size_t{3}, std::size_t{8}, std::size_t{32}}) {
      CAPTURE(one_at_a_time);
      CAPTURE(at_once);
      strict_queue queue(all);
      std::vector<ibv_wc> got;
      std::vector<ibv_wc> room(at_once);
      std::size_t n = at_once;
      while (n == at_once) {
        n = take_extended(&queue, one_at_a_time, room);
        CHECK_FALSE(queue.open);
        got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(n));
      }
      REQUIRE(got.size() == all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(got[i].wr_id == all[i].wr_id);
        CHECK(got[i].status == all[i].status);
      }
      CHECK(got[2].imm_data == 42);
      CHECK(got[3].src_qp == 303);
      CHECK(got[5].slid == 9);
      CHECK(got[6].vendor_err == 7);
      CHECK(got[7].qp_num == 207);
      CHECK(queue.waiting.empty());
    }
  }
}

TEST_CASE("Q1: what is there is one batch; an empty queue is asked once, and nothing is ended") {
  std::vector<ibv_wc> room(32);
  strict_queue full(of_every_kind());
  CHECK(take_extended(&full, false, room) == 8);
  CHECK(full.starts == 1);
  strict_queue empty({});
  CHECK(take_extended(&empty, false, room) == 0);
  CHECK(take_extended(&empty, true, room) == 0);
  CHECK(empty.starts == 2);
}

namespace {

// Records the calls that it receives.
struct telling_pair : ibv_qp_ex {
  telling_pair() : ibv_qp_ex() {
    qp_base.context = &context;
    context.ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return said("post_send"); };
    wr_start = [](ibv_qp_ex*) { said("start"); };
    wr_complete = [](ibv_qp_ex*) { return said("complete"); };
    wr_abort = [](ibv_qp_ex*) { said("abort"); };
    wr_send = [](ibv_qp_ex* q) { said("send", q); };
    wr_send_imm = [](ibv_qp_ex* q, __be32 imm) { said("send_imm:" + std::to_string(imm), q); };
    wr_rdma_write = [](ibv_qp_ex* q, std::uint32_t, std::uint64_t) { said("write", q); };
    wr_rdma_write_imm = [](ibv_qp_ex* q, std::uint32_t, std::uint64_t, __be32) {
      said("write_imm", q);
    };
    wr_rdma_read = [](ibv_qp_ex* q, std::uint32_t, std::uint64_t) { said("read", q); };
    wr_atomic_fetch_add = [](ibv_qp_ex* q, std::uint32_t, std::uint64_t, std::uint64_t by) {
      said("add:" + std::to_string(by), q);
    };
    wr_atomic_cmp_swp = [](ibv_qp_ex* q, std::uint32_t, std::uint64_t, std::uint64_t expected,
                           std::uint64_t swap) {
      said("swap:" + std::to_string(expected) + ">" + std::to_string(swap), q);
    };
    wr_set_ud_addr = [](ibv_qp_ex*, ibv_ah*, std::uint32_t pair, std::uint32_t) {
      said("to:" + std::to_string(pair));
    };
    wr_set_sge = [](ibv_qp_ex*, std::uint32_t, std::uint64_t, std::uint32_t n) {
      said("sge:" + std::to_string(n));
    };
    wr_set_sge_list = [](ibv_qp_ex*, std::size_t n, const ibv_sge*) {
      said("sges:" + std::to_string(n));
    };
    wr_set_inline_data = [](ibv_qp_ex*, void*, std::size_t n) {
      said("inline:" + std::to_string(n));
    };
    wr_set_inline_data_list = [](ibv_qp_ex*, std::size_t n, const ibv_data_buf*) {
      said("inlines:" + std::to_string(n));
    };
    told.clear();
    outcome = 0;
  }
  static int said(const std::string& what, const ibv_qp_ex* q = nullptr) {
    told += (told.empty() ? "" : " ") + what;
    if (q != nullptr) told += "#" + std::to_string(q->wr_id);
    return outcome;
  }
  inline static std::string told;
  inline static int outcome = 0;
  ibv_context context{};
};

// Requests in a list, numbered from 1, each with `segments` segments of 10 bytes.
struct requests {
  ibv_send_wr& add(ibv_wr_opcode opcode, int segments, unsigned flags = 0) {
    ibv_send_wr& r = all[count];
    r = ibv_send_wr{};
    r.wr_id = ++count;
    r.opcode = opcode;
    r.num_sge = segments;
    r.sg_list = sges.data();
    r.send_flags = flags;
    if (count > 1) all[count - 2].next = &r;
    return r;
  }
  std::array<ibv_send_wr, 8> all{};
  std::array<ibv_sge, 4> sges{{{0, 10, 1}, {0, 10, 1}, {0, 10, 1}, {0, 10, 1}}};
  std::size_t count = 0;
};

}  // namespace

TEST_CASE("Q2: a list is one region, in which each request is followed by its data") {
  telling_pair pair;
  requests list;
  list.add(IBV_WR_SEND, 1, IBV_SEND_INLINE);
  list.add(IBV_WR_SEND_WITH_IMM, 0).imm_data = 5;
  list.add(IBV_WR_RDMA_WRITE, 3);
  list.add(IBV_WR_RDMA_WRITE_WITH_IMM, 2, IBV_SEND_INLINE);
  list.add(IBV_WR_RDMA_READ, 1);
  list.add(IBV_WR_ATOMIC_FETCH_AND_ADD, 1).wr.atomic.compare_add = 4;
  ibv_send_wr& swap = list.add(IBV_WR_ATOMIC_CMP_AND_SWP, 1);
  swap.wr.atomic.compare_add = 6;
  swap.wr.atomic.swap = 7;
  const send_queue queue(&pair.qp_base, &pair, false);
  CHECK(queue.post(list.all.data()).code == 0);
  CHECK(telling_pair::told ==
        "start send#1 inline:10 send_imm:5#2 sges:0 write#3 sges:3 write_imm#4 inlines:2 "
        "read#5 sge:10 add:4#6 sge:10 swap:6>7#7 sge:10 complete");
}

TEST_CASE("Q2: one request is a region by itself, built from what the caller said [segments]") {
  using cordma::transport::opcode;
  std::array<std::byte, 10> memory{};
  const std::array<cordma::transport::segment, 2> pieces{
      {{memory.data(), 10, 1}, {memory.data(), 10, 1}}};
  const auto told_of = [&pieces](opcode op, std::uint16_t segments, unsigned flags,
                                 bool one_segment) {
    telling_pair pair;
    const send_queue queue(&pair.qp_base, &pair, one_segment);
    CHECK(queue.post_one({.op = op, .segment_count = segments, .segments = pieces.data()}, 9, flags)
              .code == 0);
    return telling_pair::told;
  };
  CHECK(told_of(opcode::send, 1, 0, false) == "start send#9 sge:10 complete");
  CHECK(told_of(opcode::write, 1, IBV_SEND_INLINE, false) == "start write#9 inline:10 complete");
  CHECK(told_of(opcode::read, 2, 0, false) == "start read#9 sges:2 complete");
  CHECK(told_of(opcode::send_imm, 0, 0, true) == "start send_imm:0#9 sges:0 complete");
  CHECK(told_of(opcode::write_imm, 2, IBV_SEND_INLINE, false) ==
        "start write_imm#9 inlines:2 complete");
  CHECK(told_of(opcode::write, 2, 0, true) == "post_send");
}

TEST_CASE("Q2: a datagram is told where it goes before it is given its data") {
  telling_pair pair;
  pair.qp_base.qp_type = IBV_QPT_UD;
  requests list;
  list.add(IBV_WR_SEND, 1).wr.ud.remote_qpn = 77;
  CHECK(send_queue(&pair.qp_base, &pair, false).post(list.all.data()).code == 0);
  CHECK(telling_pair::told == "start send#1 to:77 sge:10 complete");
}

TEST_CASE(
    "Q2: what was not declared aborts the region, and what fails to complete is refused whole") {
  telling_pair pair;
  requests list;
  list.add(IBV_WR_SEND, 1);
  list.add(IBV_WR_TSO, 1);
  const send_queue queue(&pair.qp_base, &pair, false);
  const post_outcome undeclared = queue.post(list.all.data());
  CHECK(undeclared.code == EOPNOTSUPP);
  CHECK(undeclared.refused == nullptr);
  CHECK(telling_pair::told == "start send#1 sge:10 abort");
  telling_pair::outcome = ENOSPC;
  list.all[0].next = nullptr;
  const post_outcome failed = queue.post(list.all.data());
  CHECK(failed.code == ENOSPC);
  CHECK(failed.refused == nullptr);
}

TEST_CASE(
    "Q2: where lists of segments are not to be trusted, a list with one goes by plain calls") {
  telling_pair pair;
  requests list;
  list.add(IBV_WR_SEND, 1);
  list.add(IBV_WR_SEND, 2);
  const send_queue queue(&pair.qp_base, &pair, true);
  CHECK(queue.post(list.all.data()).code == 0);
  CHECK(telling_pair::told == "post_send");
  telling_pair::told.clear();
  list.all[0].next = nullptr;
  CHECK(queue.post(list.all.data()).code == 0);
  CHECK(telling_pair::told == "start send#1 sge:10 complete");
}
