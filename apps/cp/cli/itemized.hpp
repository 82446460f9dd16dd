// -i: what becomes of an entry, in one word, as rsync's "%i" has it.
#pragma once

#include "../protocol/wire.hpp"

#include <string>

namespace copy {

// "*deleting  ", or eleven signs: what is done (">" comes here, "<" goes there, "c" is made, "h" becomes another name,
// "." only what is kept of it is set), what it is (f d L D S), and then a sign for each thing that was different there, or
// "+" where nothing was there.
[[nodiscard]] inline std::string itemized(const item& i, bool goes_there, bool times_are_kept) {
  if (i.what == item::change::deleted) return "*deleting  ";
  const bool is_new = i.what == item::change::made || i.differs == item::everything;
  const bool has_bytes = has_contents(i.kind);
  std::string word;
  word += i.what == item::change::metadata  ? '.'
          : i.kind == entry_kind::hard_link ? 'h'
          : has_bytes                       ? (goes_there ? '<' : '>')
                                            : 'c';
  word += i.kind == entry_kind::directory ? 'd'
          : i.kind == entry_kind::symlink ? 'L'
          : i.kind == entry_kind::special ? (i.is_device ? 'D' : 'S')
                                          : 'f';
  if (is_new) return word + "+++++++++";
  const auto sign = [&](std::uint16_t what, char c) { return (i.differs & what) != 0 ? c : '.'; };
  word += sign(item::contents, 'c');
  word += sign(item::size, 's');
  word += sign(item::time, times_are_kept ? 't' : 'T');
  word += sign(item::mode, 'p');
  word += sign(item::owner, 'o');
  word += sign(item::group, 'g');
  word += "..";
  word += sign(item::attributes, 'x');
  return word;
}

}  // namespace copy
