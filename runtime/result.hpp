// failure: an error, as a value. error: the same, thrown. result<T>: a value or a failure.
#pragma once

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/errc.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

namespace cordma {

// A value; immutable once built, freely copied between threads. Building one never throws: it does
// not allocate from codes alone, and it omits the message if there is no memory for it, so that
// code which reports exhausted memory does not fail itself. Copying does not allocate.
class failure {
 public:
  failure(errc code) noexcept : code_(code) {}  // NOLINT(google-explicit-constructor)
  // `message`: one sentence that states what happened, where, and the remedy.
  failure(errc code, std::string message) noexcept;
  failure(errc code, const char* message) noexcept : failure(of(code, {message})) {}

  // A part of a message: text that outlives the call, or a number in decimal. Neither allocates.
  class part {
   public:
    template <std::convertible_to<std::string_view> T>
    part(const T& text) noexcept : text_(text) {}  // NOLINT(google-explicit-constructor)
    template <std::unsigned_integral T>
    part(T number) noexcept : part(std::uint64_t{number}, 0) {}  // NOLINT
    part(const part&) = delete;
    part& operator=(const part&) = delete;
    [[nodiscard]] std::string_view text() const noexcept { return text_; }

   private:
    part(std::uint64_t number, int) noexcept;
    std::array<char, 20> digits_;
    std::string_view text_;
  };
  // Builds the message from its parts: for code that must not throw.
  [[nodiscard]] static failure of(errc code, std::initializer_list<part> parts) noexcept;
  // For a system call: the code follows from `os_errno`; `what` names the call and its object. If a
  // resource is exhausted, the remedy is added.
  [[nodiscard]] static failure from_os(int os_errno, std::string_view what) noexcept {
    return from_os(os_errno, std::initializer_list<part>{what});
  }
  [[nodiscard]] static failure from_os(int os_errno, std::initializer_list<part> what) noexcept;

  [[nodiscard]] errc code() const noexcept { return code_; }
  // Empty if the code is sufficient.
  [[nodiscard]] const std::string& message() const noexcept;
  // The public operation that failed ("send", "connect", ...), or "" if none did.
  [[nodiscard]] const char* operation() const noexcept { return operation_; }
  // The completion status and vendor code of the transport (ibv_wc_status numbering), else 0.
  [[nodiscard]] std::uint16_t wc_status() const noexcept { return wc_status_; }
  [[nodiscard]] std::uint32_t vendor_err() const noexcept { return vendor_err_; }
  [[nodiscard]] int os_errno() const noexcept { return os_errno_; }
  // The failure that caused this one; null if this is the first cause.
  [[nodiscard]] const failure* cause() const noexcept { return cause_.get(); }
  [[nodiscard]] const failure& first_cause() const noexcept;

  failure& with_operation(const char* static_name) noexcept {
    operation_ = static_name;
    return *this;
  }
  failure& with_status(std::uint16_t wc_status, std::uint32_t vendor_err) noexcept {
    wc_status_ = wc_status;
    vendor_err_ = vendor_err;
    return *this;
  }
  failure& with_errno(int os_errno) noexcept {
    os_errno_ = os_errno;
    return *this;
  }
  failure& with_cause(std::shared_ptr<const failure> cause) noexcept {
    cause_ = std::move(cause);
    return *this;
  }

  // Returns "send: flushed: not carried out ... because: read: remote_access: ...", the complete
  // chain.
  [[nodiscard]] std::string describe() const;

 private:
  errc code_;
  std::uint16_t wc_status_ = 0;
  std::uint32_t vendor_err_ = 0;
  int os_errno_ = 0;
  const char* operation_ = "";
  std::shared_ptr<const std::string> message_;
  std::shared_ptr<const failure> cause_;
};

// The exception of `co_await operation`. what() is failure::describe(). Copying never throws.
class error : public std::system_error {
 public:
  explicit error(failure why);
  [[nodiscard]] const failure& why() const noexcept { return told_->why; }
  [[nodiscard]] errc condition() const noexcept { return told_->why.code(); }
  [[nodiscard]] const char* what() const noexcept override { return told_->text.c_str(); }

 private:
  struct told {
    explicit told(failure&& f) : why(std::move(f)), text(why.describe()) {}
    failure why;
    std::string text;
  };
  std::shared_ptr<const told> told_;
};

[[noreturn]] void throw_error(failure why);

// True if it is a cordma::error with errc::canceled. Takes a rethrow.
[[nodiscard]] bool is_canceled(const std::exception_ptr& thrown) noexcept;

// A value or a failure. value() throws cordma::error if there is no value; operator* REQUIRES one.
template <class T>
class [[nodiscard]] result {
 public:
  using value_type = T;
  result(T value) : store_(std::in_place_index<0>, std::move(value)) {}             // NOLINT
  result(failure why) noexcept : store_(std::in_place_index<1>, std::move(why)) {}  // NOLINT
  result(errc code) noexcept : store_(std::in_place_index<1>, code) {}              // NOLINT

  [[nodiscard]] bool ok() const noexcept { return store_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] errc code() const noexcept { return ok() ? errc::ok : why().code(); }
  [[nodiscard]] const failure& why() const {
    CORDMA_REQUIRE(!ok());
    return *std::get_if<1>(&store_);
  }

  T& value() & {
    if (!ok()) throw_error(why());
    return *std::get_if<0>(&store_);
  }
  const T& value() const& {
    if (!ok()) throw_error(why());
    return *std::get_if<0>(&store_);
  }
  T value() && {
    if (!ok()) throw_error(why());
    return std::move(*std::get_if<0>(&store_));
  }
  T& operator*() {
    CORDMA_REQUIRE(ok());
    return *std::get_if<0>(&store_);
  }
  const T& operator*() const {
    CORDMA_REQUIRE(ok());
    return *std::get_if<0>(&store_);
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

 private:
  std::variant<T, failure> store_;
};

template <>
class [[nodiscard]] result<void> {
 public:
  using value_type = void;
  result() noexcept : store_(std::in_place_index<0>) {}
  result(failure why) noexcept : store_(std::in_place_index<1>, std::move(why)) {}  // NOLINT
  result(errc code) noexcept {                                                      // NOLINT
    if (code != errc::ok) store_.emplace<1>(code);
  }

  [[nodiscard]] bool ok() const noexcept { return store_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] errc code() const noexcept { return ok() ? errc::ok : why().code(); }
  [[nodiscard]] const failure& why() const {
    CORDMA_REQUIRE(!ok());
    return *std::get_if<1>(&store_);
  }
  void value() const {
    if (!ok()) throw_error(why());
  }

 private:
  std::variant<std::monostate, failure> store_;
};

}  // namespace cordma
