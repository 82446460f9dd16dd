#include <cordma/net/protocol/tag_matcher.hpp>

#include <bit>

namespace cordma::protocol {
namespace {

constexpr bool is_whole(const tag_pattern& p) noexcept { return p.mask == ~std::uint64_t{0}; }

}  // namespace

tag_matcher::tag_matcher() : buckets_(std::make_unique<std::array<bucket, buckets>>()) {}

tag_matcher::bucket& tag_matcher::bucket_of(std::uint64_t tag) noexcept {
  // Tags count up, or hold fields: the high bits of a product depend on all of them.
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  constexpr int shift = 64 - std::countr_zero(buckets);
  return (*buckets_)[static_cast<std::size_t>((tag * golden) >> shift)];
}

tag_receive* tag_matcher::first_for(list<tag_receive>& among, std::uint64_t tag,
                                    const void* from) noexcept {
  return among.find([&](const tag_receive& r) { return r.pattern_.accepts(tag, from); });
}

tag_message* tag_matcher::first_of(list<tag_message::place>& among, const tag_pattern& p) noexcept {
  const tag_message::place* const found = among.find(
      [&](const tag_message::place& m) { return p.accepts(m.owner->tag_, m.owner->from_); });
  return found != nullptr ? found->owner : nullptr;
}

tag_message* tag_matcher::probe(const tag_pattern& p) noexcept {
  return first_of(is_whole(p) ? bucket_of(p.tag).messages : all_, p);
}

void tag_matcher::claim(tag_message& m) noexcept {
  CORDMA_REQUIRE(m.waits());
  m.among_like_.unlink();
  m.among_all_.unlink();
}

tag_message* tag_matcher::post(tag_receive& r) noexcept {
  CORDMA_REQUIRE(!r.waits());
  const tag_pattern& p = r.pattern_;
  tag_message* const here = probe(p);
  if (here != nullptr) {
    claim(*here);
    return here;
  }
  r.turn_ = next_turn_++;
  (is_whole(p) ? bucket_of(p.tag).receives : masked_).push_back(r);
  return nullptr;
}

tag_receive* tag_matcher::arrive(std::uint64_t tag, const void* from) noexcept {
  tag_receive* found = first_for(bucket_of(tag).receives, tag, from);
  tag_receive* const masked = first_for(masked_, tag, from);
  if (found == nullptr || (masked != nullptr && masked->turn_ < found->turn_)) found = masked;
  if (found != nullptr) found->unlink();
  return found;
}

void tag_matcher::keep(tag_message& m) noexcept {
  bucket_of(m.tag_).messages.push_back(m.among_like_);
  all_.push_back(m.among_all_);
}

}  // namespace cordma::protocol
