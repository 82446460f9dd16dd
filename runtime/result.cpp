#include <cordma/runtime/result.hpp>

#include <cstring>

namespace cordma {

failure failure::from_os(int os_errno, std::string what) {
  what += ": ";
  what += std::generic_category().message(os_errno);
  failure f{from_errno(os_errno), std::move(what)};
  f.with_errno(os_errno);
  return f;
}

const failure& failure::first_cause() const noexcept {
  const failure* f = this;
  while (f->cause_) f = f->cause_.get();
  return *f;
}

std::string failure::describe() const {
  std::string text;
  for (const failure* f = this; f != nullptr; f = f->cause_.get()) {
    if (f != this) text += "; because: ";
    if (*f->operation_ != '\0') text.append(f->operation_).append(": ");
    text.append(name(f->code_)).append(": ");
    text.append(f->message_.empty() ? sentence(f->code_) : std::string_view(f->message_));
    if (f->wc_status_ != 0) {
      text.append(" (completion status ").append(std::to_string(f->wc_status_));
      if (f->vendor_err_ != 0) text.append(", vendor code ").append(std::to_string(f->vendor_err_));
      text += ')';
    }
  }
  return text;
}

error::error(failure why)
    : std::system_error(make_error_code(why.code())),
      told_(std::make_shared<const told>(std::move(why))) {}

void throw_error(failure why) { throw error(std::move(why)); }

bool is_canceled(const std::exception_ptr& thrown) noexcept {
  if (!thrown) return false;
  try {
    std::rethrow_exception(thrown);
  } catch (const error& e) {
    return e.condition() == errc::canceled;
  } catch (...) {
    return false;
  }
}

}  // namespace cordma
