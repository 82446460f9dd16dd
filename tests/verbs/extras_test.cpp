// query_devices() reports for each extra whether the device has it, which is tried here, and
// whether cordma offers it.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <infiniband/verbs.h>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

device_attributes asked_device() {
  const std::vector<device_attributes> all = query_devices().value();
  REQUIRE(all.size() == 1);
  return all[0];
}

struct asked {
  Context context{host::only()};
  ibv_pd* pd = context.native_pd().value();
  ibv_context* device = pd->context;
  std::vector<device_extra> extras = asked_device().extras;

  [[nodiscard]] bool on_device(std::string_view name) const {
    const auto at = std::ranges::find(extras, name, &device_extra::name);
    REQUIRE(at != extras.end());
    return at->on_device;
  }
};

}  // namespace

TEST_CASE("L10: XRC is said to be there where a domain can be opened") {
  const asked a;
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = O_CREAT;
  ibv_xrcd* const made = ibv_open_xrcd(a.device, &attr);
  const int why = errno;
  CHECK(a.on_device("XRC") == (made != nullptr));
  if (made == nullptr) CHECK((why == EOPNOTSUPP || why == ENOSYS));
  if (made != nullptr) ibv_close_xrcd(made);
}

TEST_CASE(
    "Q4, Q5, Q6: tag matching, dmabuf and on-demand paging are said to be as the device has them") {
  const asked a;
  ibv_device_attr_ex x{};
  REQUIRE(ibv_query_device_ex(a.device, nullptr, &x) == 0);
  CHECK(a.on_device("tag matching") == (x.tm_caps.max_num_tags != 0));
  ibv_srq_init_attr_ex tagged{};
  tagged.attr.max_wr = tagged.attr.max_sge = 1;
  tagged.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TM;
  tagged.srq_type = IBV_SRQT_TM;
  tagged.pd = a.pd;
  tagged.tm_cap.max_num_tags = 1;
  ibv_srq* const queue = ibv_create_srq_ex(a.device, &tagged);
  if (!a.on_device("tag matching")) CHECK(queue == nullptr);
  if (queue != nullptr) ibv_destroy_srq(queue);
  CHECK(a.on_device("on-demand paging") == ((x.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0));
  std::vector<std::byte> memory(4096);
  ibv_mr* const paged =
      ibv_reg_mr(a.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  if (!a.on_device("on-demand paging")) CHECK(paged == nullptr);
  if (paged != nullptr) ibv_dereg_mr(paged);
  errno = 0;
  CHECK(ibv_reg_dmabuf_mr(a.pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(a.on_device("dmabuf regions") == (errno == EBADF));
}

TEST_CASE("Q7: null regions and device memory are said to be there where they can be made") {
  const asked a;
  ibv_mr* const nowhere = ibv_alloc_null_mr(a.pd);
  CHECK(a.on_device("null regions") == (nowhere != nullptr));
  if (nowhere != nullptr) ibv_dereg_mr(nowhere);
  ibv_alloc_dm_attr attr{};
  attr.length = 64;
  ibv_dm* const on_chip = ibv_alloc_dm(a.device, &attr);
  CHECK(a.on_device("device memory") == (on_chip != nullptr));
  if (on_chip != nullptr) ibv_free_dm(on_chip);
}

TEST_CASE("A2: enhanced connections (ECE) are said to be there where a queue pair tells of them") {
  const asked a;
  ibv_cq* const queue = ibv_create_cq(a.device, 1, nullptr, nullptr, 0);
  REQUIRE(queue != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = queue;
  init.cap.max_send_wr = init.cap.max_recv_wr = 1;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const pair = ibv_create_qp(a.pd, &init);
  REQUIRE(pair != nullptr);
  ibv_ece ece{};
  const int told = ibv_query_ece(pair, &ece);
  CHECK(a.on_device("enhanced connections") == (told == 0));
  ece = {.vendor_id = 0x2c9, .options = 1, .comp_mask = 0};
  const int set = ibv_set_ece(pair, &ece);
  if (told != 0) {
    CHECK(told == EOPNOTSUPP);
    CHECK(set == EOPNOTSUPP);
  }
  CHECK(ibv_destroy_qp(pair) == 0);
  CHECK(ibv_destroy_cq(queue) == 0);
}

TEST_CASE(
    "Q10, Q12: parent domains and moderation of completions are said to be as they can be had") {
  const asked a;
  ibv_parent_domain_init_attr attr{};
  attr.pd = a.pd;
  errno = 0;
  ibv_pd* const parent = ibv_alloc_parent_domain(a.device, &attr);
  CHECK(a.on_device("parent domains") == (parent != nullptr));
  if (parent == nullptr) CHECK(errno == EOPNOTSUPP);
  if (parent != nullptr) ibv_dealloc_pd(parent);
  ibv_cq* const queue = ibv_create_cq(a.device, 1, nullptr, nullptr, 0);
  REQUIRE(queue != nullptr);
  ibv_modify_cq_attr rarely{};
  rarely.attr_mask = IBV_CQ_ATTR_MODERATE;
  rarely.moderate = {.cq_count = 1, .cq_period = 1};
  const int moderated = ibv_modify_cq(queue, &rarely);
  CHECK(a.on_device("completion moderation") == (moderated == 0));
  if (moderated != 0) CHECK(moderated == EOPNOTSUPP);
  CHECK(ibv_destroy_cq(queue) == 0);
}

TEST_CASE(
    "Q8: windows of type 1 are said to be there where one can be allocated, and not offered") {
  const asked a;
  ibv_mw* const window = ibv_alloc_mw(a.pd, IBV_MW_TYPE_1);
  CHECK(a.on_device("memory windows of type 1") == (window != nullptr));
  if (window != nullptr) CHECK(ibv_dealloc_mw(window) == 0);
  const result<void> refused = a.context.require("memory windows of type 1");
  CHECK(refused.code() == errc::not_supported);
}

TEST_CASE("Q11: whether a queue pair's writes land in order is said as it tells") {
  const asked a;
  ibv_cq* const queue = ibv_create_cq(a.device, 1, nullptr, nullptr, 0);
  REQUIRE(queue != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = queue;
  init.cap.max_send_wr = init.cap.max_recv_wr = 1;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const pair = ibv_create_qp(a.pd, &init);
  REQUIRE(pair != nullptr);
  const int told = ibv_query_qp_data_in_order(pair, IBV_WR_RDMA_WRITE, 0);
  CHECK(a.on_device("data in order") == (told == 1));
  CHECK(ibv_destroy_qp(pair) == 0);
  CHECK(ibv_destroy_cq(queue) == 0);
}

TEST_CASE("Q10: thread domains and import are said to be there where they can be had") {
  const asked a;
  ibv_td_init_attr attr{};
  ibv_td* const one_thread = ibv_alloc_td(a.device, &attr);
  CHECK(a.on_device("thread domains") == (one_thread != nullptr));
  if (one_thread != nullptr) ibv_dealloc_td(one_thread);
  ibv_context* const imported = ibv_import_device(a.device->cmd_fd);
  CHECK(a.on_device("import by other processes") == (imported != nullptr));
  if (imported != nullptr) ibv_close_device(imported);
}

TEST_CASE(
    "Q11: relaxed ordering is taken; remote flush and atomic write are as the device's flags say") {
  const asked a;
  transport::verbs_options o;
  o.relaxed_ordering = true;
  const std::shared_ptr<transport::domain> d = transport::make_verbs(o).value();
  std::vector<std::byte> memory(4096);
  const result<transport::memory_keys> keys = d->register_memory(
      {.addr = memory.data(), .length = memory.size(), .rights = access::remote_write});
  REQUIRE(keys.ok());
  d->deregister_memory(keys->lkey);
  ibv_device_attr_ex x{};
  REQUIRE(ibv_query_device_ex(a.device, nullptr, &x) == 0);
  CHECK(a.on_device("remote flush") == ((x.device_cap_flags_ex & (3ULL << 38)) != 0));
  CHECK(a.on_device("atomic write") == ((x.device_cap_flags_ex & (1ULL << 40)) != 0));
}

TEST_CASE(
    "Q8, Q3: memory windows and shared receive queues are offered where the device has them") {
  const asked a;
  CHECK(a.on_device("memory windows of type 2"));
  CHECK(a.on_device("shared receive queues"));
  for (const device_extra& e : a.extras) {
    CAPTURE(std::string(e.name));
    constexpr std::array<std::string_view, 7> offered{
        "asynchronous events",        "solicited events",           "shared receive queues",
        "extended requests",          "extended completion queues", "memory windows of type 2",
        "completion queues that grow"};
    CHECK(e.offered == (std::ranges::find(offered, e.name) != offered.end()));
  }
}

TEST_CASE("Q1: time stamps of completions are refused where the device has none, and said to be") {
  const asked a;
  ibv_device_attr_ex x{};
  REQUIRE(ibv_query_device_ex(a.device, nullptr, &x) == 0);
  CHECK(a.on_device("completion time stamps") == (x.completion_timestamp_mask != 0));
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  errno = 0;
  ibv_cq_ex* const stamped = ibv_create_cq_ex(a.device, &attr);
  CHECK((stamped != nullptr) == a.on_device("completion time stamps"));
  if (stamped == nullptr) CHECK(errno == EOPNOTSUPP);
  if (stamped != nullptr) ibv_destroy_cq(ibv_cq_ex_to_cq(stamped));
}

// The cases above check that the device refuses the real calls: ibv_open_xrcd (L10),
// ibv_create_srq_ex with tags and ibv_reg_dmabuf_mr (Q4, Q5), ibv_alloc_null_mr and ibv_alloc_dm
// (Q7), ibv_query_ece and ibv_set_ece (A2), ibv_alloc_parent_domain (Q10), ibv_modify_cq (Q12).
TEST_CASE("A2: whatever the device lacks, or cordma does not offer, is not_supported by name") {
  const asked a;
  for (const device_extra& e : a.extras) {
    CAPTURE(std::string(e.name));
    const errc expected = e.on_device && e.offered ? errc::ok : errc::not_supported;
    CHECK(a.context.require(e.name).code() == expected);
  }
  for (const char* name : {"XRC", "null regions", "device memory", "dmabuf regions",
                           "enhanced connections", "tag matching", "parent domains",
                           "completion moderation", "memory windows of type 1", "data in order"}) {
    CAPTURE(std::string(name));
    CHECK(a.context.require(name).code() == errc::not_supported);
  }
  CHECK(a.context.require("shared receive queues").ok());
  CHECK(a.context.require("wings").code() == errc::invalid_value);
}
