#include "wire.hpp"

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/result.hpp>

#include <algorithm>

#include <linux/limits.h>
#include <sys/stat.h>

namespace copy {
namespace {

constexpr std::uint32_t most_paths = 1U << 17;
constexpr std::size_t longest_sentence = 4096;  // size limit of a message, in bytes
std::string_view first_of(std::string_view text) noexcept {
  return text.substr(0, longest_sentence);
}

constexpr frame_kind frame_kinds[] = {
    frame_kind::hello,   frame_kind::challenge, frame_kind::proof,       frame_kind::welcome,
    frame_kind::refusal, frame_kind::join,      frame_kind::joined,      frame_kind::memory,
    frame_kind::data,    frame_kind::entries,   frame_kind::entries_end, frame_kind::problems,
    frame_kind::chunk,   frame_kind::bundle,    frame_kind::file_end,    frame_kind::all_sent,
    frame_kind::wants,   frame_kind::compare,   frame_kind::credit,      frame_kind::again,
    frame_kind::items,   frame_kind::finished,  frame_kind::compared,    frame_kind::alive,
    frame_kind::done,
};

bool is_special(std::uint32_t type) noexcept {
  return type == S_IFIFO || type == S_IFSOCK || type == S_IFCHR || type == S_IFBLK;
}

constexpr std::uint64_t largest_file = std::uint64_t{1} << 62;  // bytes

// Reads a number from `first` to `last` as a value of an enum.
template <class Enum>
Enum one_of(frame_reader& in, std::uint8_t last, std::uint8_t first = 1) {
  const std::uint8_t value = in.u8();
  if (value < first || value > last) refuse(in.kind(), "a number that stands for nothing");
  return static_cast<Enum>(value);
}

using flag = bool transfer_options::*;
constexpr flag flags[] = {
    &transfer_options::recursive,       &transfer_options::links,
    &transfer_options::hard_links,      &transfer_options::mode,
    &transfer_options::times,           &transfer_options::owner,
    &transfer_options::group,           &transfer_options::attributes,
    &transfer_options::dry_run,         &transfer_options::delete_others,
    &transfer_options::checksum,        &transfer_options::ignore_times,
    &transfer_options::sparse,          &transfer_options::inplace,
    &transfer_options::direct,

    &transfer_options::resume,          &transfer_options::sync,
    &transfer_options::items,           &transfer_options::directory,
    &transfer_options::update,          &transfer_options::size_only,
    &transfer_options::existing,        &transfer_options::ignore_existing,
    &transfer_options::one_file_system, &transfer_options::devices,
    &transfer_options::specials,        &transfer_options::listed,
    &transfer_options::owner_if_may,    &transfer_options::group_if_may,
    &transfer_options::acknowledge,
};

void encode(frame_writer& out, const transfer_options& o) {
  std::uint32_t set = 0;
  for (std::size_t i = 0; i < std::size(flags); ++i) set |= o.*flags[i] ? 1U << i : 0U;
  out.u32(set)
      .u32(o.chunk_bytes)
      .u64(o.memory_bytes)
      .u64(o.bytes_per_s)
      .u32(o.silence_s)
      .u64(o.most_deleted);
}

transfer_options decode_options(frame_reader& in) {
  transfer_options o;
  const std::uint32_t set = in.u32();
  if (set >> std::size(flags) != 0) refuse(in.kind(), "options that this version does not have");
  for (std::size_t i = 0; i < std::size(flags); ++i) o.*flags[i] = (set >> i & 1) != 0;
  o.chunk_bytes = in.u32();
  o.memory_bytes = in.u64();
  o.bytes_per_s = in.u64();
  o.silence_s = in.u32();
  o.most_deleted = in.u64();
  if (o.silence_s > longest_silence_s) refuse(in.kind(), "a time that cannot be");
  if (o.chunk_bytes < smallest_chunk || o.chunk_bytes > largest_chunk ||
      o.chunk_bytes % smallest_chunk != 0) {
    refuse(in.kind(), "a size of chunks that cannot be");
  }
  return o;
}

std::vector<std::string> decode_texts(frame_reader& in, std::uint32_t most) {
  const std::uint32_t count = in.u32();
  if (count > most) refuse(in.kind(), "too many paths or rules");
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < count; ++i) texts.push_back(in.text());
  return texts;
}

void encode(frame_writer& out, const std::vector<std::string>& texts) {
  out.u32(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& t : texts) out.text(t);
}

}  // namespace

void refuse(frame_kind kind, std::string_view what) {
  cordma::throw_error({cordma::errc::invalid_value, "the peer sent a frame of kind " +
                                                        std::to_string(static_cast<int>(kind)) +
                                                        " with " + std::string(what)});
}

void encode_refusal(std::vector<std::byte>& to, failing what, std::string_view why) {
  frame_writer(to, frame_kind::refusal).text(first_of(why)).u8(static_cast<std::uint8_t>(what));
}

void throw_refusal(frame_reader& in, const char* who) {
  const std::string why = in.text();
  const auto what = one_of<failing>(in, 3);
  in.end();
  if (what != failing::may_not) throw failed_place(what, why);
  cordma::throw_error({cordma::errc::rejected, std::string(who) + ": " + why});
}

frame_writer::frame_writer(std::vector<std::byte>& out, frame_kind kind)
    : out_(out), began_(out.size()) {
  u32(0).u8(static_cast<std::uint8_t>(kind));
}

frame_writer::~frame_writer() {
  CORDMA_REQUIRE_OP(payload(), <=, std::size_t{longest_payload});
  const auto bytes = static_cast<std::uint32_t>(payload());
  for (unsigned i = 0; i < 4; ++i) out_[began_ + i] = std::byte(bytes >> 8 * i & 255);
}

frame_writer& frame_writer::bytes(std::span<const std::byte> value) {
  out_.insert(out_.end(), value.begin(), value.end());
  return *this;
}

void frame_reader::too_short() const { refuse(kind_, "fewer bytes than it says"); }

void frame_reader::end() const {
  if (!empty()) refuse(kind_, "more bytes than it should have");
}

frame_head decode_head(std::span<const std::byte, frame_head_bytes> bytes) {
  frame_head head;
  for (unsigned i = 0; i < 4; ++i) head.payload |= static_cast<std::uint32_t>(bytes[i]) << 8 * i;
  head.kind = static_cast<frame_kind>(bytes[4]);
  if (std::ranges::find(frame_kinds, head.kind) == std::end(frame_kinds)) {
    refuse(head.kind, "a kind that this version does not have");
  }
  if (head.payload > longest_payload) refuse(head.kind, "more bytes than one may have");
  return head;
}

void encode(std::vector<std::byte>& to, const hello& h) {
  frame_writer out(to, frame_kind::hello);
  out.u16(h.version).u8(static_cast<std::uint8_t>(h.way)).text(h.module);
  encode(out, h.paths);
  encode(out, h.rules);
  encode(out, h.options);
  out.u32(h.lanes).bytes(h.random).bytes(h.transfer);
}

hello decode_hello(frame_reader& in) {
  hello h;
  h.version = in.u16();
  if (h.version != protocol_version) {
    cordma::throw_error({cordma::errc::unsupported_version,
                         "the peer's cordma-cp speaks version " + std::to_string(h.version) +
                             ", this one " + std::to_string(protocol_version)});
  }
  h.way = one_of<direction>(in, 2);
  h.module = in.text();
  h.paths = decode_texts(in, most_paths);
  h.rules = decode_texts(in, most_rules);
  h.options = decode_options(in);
  h.lanes = in.u32();
  if (h.paths.empty()) refuse(in.kind(), "no path");
  if (h.lanes == 0 || h.lanes > most_lanes) refuse(in.kind(), "a number of lanes that cannot be");
  std::ranges::copy(in.bytes(nonce_bytes), h.random.begin());
  std::ranges::copy(in.bytes(nonce_bytes), h.transfer.begin());
  in.end();
  return h;
}

void encode(frame_writer& out, const entry& e) {
  out.u8(static_cast<std::uint8_t>(e.kind)).u32(e.mode).u32(e.uid).u32(e.gid).u64(e.size);
  out.u64(e.allocated)
      .u64(static_cast<std::uint64_t>(e.modified.s))
      .u32(e.modified.ns)
      .u32(e.type)
      .u64(e.device)
      .u32(e.version)
      .u8(e.finished ? 1 : 0);
  out.text(e.path).text(e.target).u16(static_cast<std::uint16_t>(e.attributes.size()));
  for (const attribute& a : e.attributes) out.text(a.name).long_text(a.value);
}

entry decode_entry(frame_reader& in) {
  entry e;
  e.kind = one_of<entry_kind>(in, static_cast<std::uint8_t>(last_entry_kind));
  e.mode = in.u32();
  e.uid = in.u32();
  e.gid = in.u32();
  e.size = in.u64();
  e.allocated = in.u64();
  e.modified.s = static_cast<std::int64_t>(in.u64());
  e.modified.ns = in.u32();
  e.type = in.u32();
  e.device = in.u64();
  e.version = in.u32();
  e.finished = one_of<std::uint8_t>(in, 1, 0) != 0;
  e.path = in.text();
  e.target = in.text();
  const std::uint16_t attributes = in.u16();
  if (attributes > most_attributes) refuse(in.kind(), "too many attributes");
  for (std::uint16_t i = 0; i < attributes; ++i) {
    std::string name = in.text();
    e.attributes.push_back({std::move(name), in.long_text()});
    const attribute& a = e.attributes.back();
    if (a.name.empty() || a.name.size() > XATTR_NAME_MAX ||
        a.name.find('\0') != std::string::npos) {
      refuse(in.kind(), "an attribute of no name that can be");
    }
  }
  constexpr std::uint32_t permissions = 07777;
  constexpr std::uint32_t ns_per_s = 1'000'000'000;
  if (e.mode > permissions || e.modified.ns >= ns_per_s || e.size > largest_file) {
    refuse(in.kind(), "a mode, size or time that cannot be");
  }
  if (is_special(e.type) != (e.kind == entry_kind::special)) {
    refuse(in.kind(), "a kind of device that there is not");
  }
  const bool leads_out = e.kind == entry_kind::hard_link && !stays_inside(e.target);
  if (!stays_inside(e.path) || leads_out) refuse(in.kind(), "a path that leads out of the target");
  if (e.kind != entry_kind::directory && e.path == ".")
    refuse(in.kind(), "a file that is the target");
  if (e.target.find('\0') != std::string::npos) refuse(in.kind(), "a link to no name");
  return e;
}

void encode(frame_writer& out, const problem& p) {
  out.u8(static_cast<std::uint8_t>(p.what)).text(first_of(p.path)).text(first_of(p.why));
  out.text(first_of(p.place));
}

problem decode_problem(frame_reader& in) {
  problem p;
  p.what = one_of<problem::kind>(in, 4);
  p.path = in.text();
  p.why = in.text();
  p.place = in.text();
  if (!p.place.empty() && !stays_inside(p.place)) {
    refuse(in.kind(), "a place that leads out of the target");
  }
  return p;
}

void encode(std::vector<std::byte>& to, const chunk_frame& c) {
  frame_writer out(to, frame_kind::chunk);
  out.u32(c.file).u32(c.slot).u64(c.index).u32(c.bytes).u8(c.is_hole).u64(c.digest);
}

chunk_frame decode_chunk(frame_reader& in) {
  chunk_frame c;
  c.file = in.u32();
  c.slot = in.u32();
  c.index = in.u64();
  c.bytes = in.u32();
  c.is_hole = one_of<std::uint8_t>(in, 1, 0);
  c.digest = in.u64();
  in.end();
  return c;
}

void encode(std::vector<std::byte>& to, const bundle_frame& b) {
  frame_writer out(to, frame_kind::bundle);
  out.u32(b.slot).u64(b.digest).u32(static_cast<std::uint32_t>(b.files.size()));
  for (const bundled& f : b.files) out.u32(f.file).u32(f.bytes);
}

bundle_frame decode_bundle(frame_reader& in) {
  bundle_frame b;
  b.slot = in.u32();
  b.digest = in.u64();
  const std::uint32_t count = in.u32();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t file = in.u32();
    b.files.push_back({file, in.u32()});
  }
  in.end();
  return b;
}

void encode(frame_writer& out, const want& w) {
  const std::span<const std::uint8_t> here(w.here);
  out.u32(w.file).u32(static_cast<std::uint32_t>(here.size())).bytes(std::as_bytes(here));
}

want decode_want(frame_reader& in) {
  want w;
  w.file = in.u32();
  const std::uint32_t bytes = in.u32();
  for (const std::byte b : in.bytes(bytes)) w.here.push_back(static_cast<std::uint8_t>(b));
  return w;
}

void encode(std::vector<std::byte>& to, const compare_frame& c) {
  frame_writer(to, frame_kind::compare).u32(c.file).u64(c.digest.low).u64(c.digest.high);
}

compare_frame decode_compare(frame_reader& in) {
  compare_frame c;
  c.file = in.u32();
  c.digest.low = in.u64();
  c.digest.high = in.u64();
  in.end();
  return c;
}

void encode(std::vector<std::byte>& to, const compared_frame& c) {
  frame_writer(to, frame_kind::compared).u32(c.file).u8(c.same ? 1 : 0);
}

compared_frame decode_compared(frame_reader& in) {
  compared_frame c;
  c.file = in.u32();
  c.same = one_of<std::uint8_t>(in, 1, 0) != 0;
  in.end();
  return c;
}

void encode(std::vector<std::byte>& to, const file_end& f) {
  frame_writer out(to, frame_kind::file_end);
  out.u32(f.file).u8(static_cast<std::uint8_t>(f.outcome)).text(f.why).u64(f.bytes);
}

file_end decode_file_end(frame_reader& in) {
  file_end f;
  f.file = in.u32();
  f.outcome = one_of<file_end::how>(in, 3, 0);
  f.why = in.text();
  f.bytes = in.u64();
  in.end();
  if (f.bytes > largest_file) refuse(in.kind(), "a size that cannot be");
  return f;
}

namespace {

void encode(frame_writer& out, const tally& t) {
  out.u64(t.files).u64(t.bytes).u64(t.same).u64(t.directories).u64(t.links).u64(t.specials);
  out.u64(t.deleted).u64(t.resumed_bytes).u64(t.damaged).u64(t.manifest);
}

tally read_tally(frame_reader& in) {
  tally t;
  t.files = in.u64();
  t.bytes = in.u64();
  t.same = in.u64();
  t.directories = in.u64();
  t.links = in.u64();
  t.specials = in.u64();
  t.deleted = in.u64();
  t.resumed_bytes = in.u64();
  t.damaged = in.u64();
  t.manifest = in.u64();
  return t;
}

}  // namespace

void encode(std::vector<std::byte>& to, const tally& t) {
  frame_writer out(to, frame_kind::finished);
  encode(out, t);
}

tally decode_tally(frame_reader& in) {
  const tally t = read_tally(in);
  in.end();
  return t;
}

void encode(std::vector<std::byte>& to, const done_frame& d) {
  frame_writer out(to, frame_kind::done);
  encode(out, d.so_far);
  out.u64(d.durable);
  for (const std::uint32_t file : d.files) out.u32(file);
}

done_frame decode_done(frame_reader& in) {
  done_frame d;
  d.so_far = read_tally(in);
  d.durable = in.u64();
  while (!in.empty()) d.files.push_back(in.u32());
  return d;
}

void encode(frame_writer& out, const item& i) {
  out.u8(static_cast<std::uint8_t>(i.what))
      .u8(static_cast<std::uint8_t>(i.kind))
      .text(first_of(i.path));
  out.u16(i.differs).u8(i.is_device ? 1 : 0);
}

item decode_item(frame_reader& in) {
  item i;
  i.what = one_of<item::change>(in, 4);
  i.kind = one_of<entry_kind>(in, static_cast<std::uint8_t>(last_entry_kind));
  i.path = in.text();
  i.differs = in.u16();
  i.is_device = one_of<std::uint8_t>(in, 1, 0) != 0;
  if (i.differs > item::everything) refuse(in.kind(), "a difference that there is not");
  return i;
}

}  // namespace copy
