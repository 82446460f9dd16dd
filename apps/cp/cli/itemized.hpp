// -i: the change of an entry, in the format of rsync's "%i".
#pragma once

#include "../protocol/wire.hpp"

#include <string>

namespace copy {

// Returns "*deleting  ", or eleven characters: the action (">" received, "<" sent, "c" created, "h"
// linked, "." only attributes set), the kind (f d L D S), and then a character for each difference
// from the existing entry, or "+" if there was none.
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
