#include "ledger.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace copy {
namespace {

// Adds all totals except `same` and the manifest.
void add(tally& to, const tally& t) noexcept {
  to.files += t.files;
  to.bytes += t.bytes;
  to.directories += t.directories;
  to.links += t.links;
  to.specials += t.specials;
  to.deleted += t.deleted;
  to.resumed_bytes += t.resumed_bytes;
  to.damaged += t.damaged;
}

}  // namespace

file_digest ledger::name_of(const entry& e) {
  const std::uint64_t numbers[] = {e.size, static_cast<std::uint64_t>(e.modified.s), e.modified.ns,
                                   e.version};
  std::string text(reinterpret_cast<const char*>(numbers), sizeof numbers);
  text += e.path;
  const XXH128_hash_t sum = XXH3_128bits(text.data(), text.size());
  return {sum.low64, sum.high64};
}

void ledger::add_finished(const entry& e) { finished_.insert(name_of(e)); }

bool ledger::has_finished(const entry& e) const {
  return !finished_.empty() && finished_.contains(name_of(e));
}

void ledger::note(const tally& so_far, std::uint64_t durable) noexcept {
  now_ = so_far;
  durable_ = std::max(durable_, durable);
}

void ledger::end_connection() noexcept {
  add(before_, std::exchange(now_, {}));
  durable_before_ += std::exchange(durable_, 0);
  may_be_deleting_ = false;
}

tally ledger::total(tally last) const noexcept {
  add(last, before_);
  return last;
}

}  // namespace copy
