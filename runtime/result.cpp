#include <cordma/runtime/result.hpp>

#include <cerrno>
#include <charconv>
#include <new>

namespace cordma {

namespace {

const char* advice(int os_errno) noexcept {
  switch (os_errno) {
    case EMFILE: return ": raise the limit of open files (ulimit -n)";
    case ENFILE: return ": raise the system's limit of open files (fs.file-max)";
    case ENOMEM: return ": free memory, or raise the memory limits (container, ulimit -v)";
    case ENOSPC: return ": free space there, or raise its limit";
    case EFBIG: return ": raise the limit of file sizes (ulimit -f), which holds for memory too";
    default: return "";
  }
}

}  // namespace

failure::failure(errc code, std::string message) noexcept : code_(code) {
  try {
    message_ = std::make_shared<const std::string>(std::move(message));
  } catch (const std::bad_alloc&) {
    // Without memory for a message, the code is enough.
  }
}

failure::part::part(std::uint64_t number, int) noexcept {
  const auto end = std::to_chars(digits_.data(), digits_.data() + digits_.size(), number).ptr;
  text_ = {digits_.data(), static_cast<std::size_t>(end - digits_.data())};
}

failure failure::of(errc code, std::initializer_list<part> parts) noexcept {
  try {
    std::string text;
    for (const part& p : parts) text += p.text();
    return {code, std::move(text)};
  } catch (const std::bad_alloc&) {
    return code;
  }
}

failure failure::from_os(int os_errno, std::initializer_list<part> what) noexcept {
  failure f = from_errno(os_errno);
  f.with_errno(os_errno);
  try {
    std::string text;
    for (const part& p : what) text += p.text();
    text += ": ";
    text += std::generic_category().message(os_errno);
    text += advice(os_errno);
    f.message_ = std::make_shared<const std::string>(std::move(text));
  } catch (const std::bad_alloc&) {
    // Without memory for a message, the number is enough.
  }
  return f;
}

const std::string& failure::message() const noexcept {
  static const std::string none;
  return message_ == nullptr ? none : *message_;
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
    text.append(f->message().empty() ? sentence(f->code_) : std::string_view(f->message()));
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
