// Keyword arguments of Python as options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/options.h"

namespace longformer {

/// Throws Error about an argument: its name and the reason.
[[noreturn]] inline void refuse_option(const std::string& name, std::string reason) {
  throw Error(ErrorParts{.subject = name, .reason = std::move(reason), .option = name});
}

/// An error of a text under its place in the list of the call: "texts[3]: …".
inline Error error_of_text(const Error& error, std::size_t place) {
  ErrorParts parts = error.parts();
  parts.subject = "texts[" + std::to_string(place) + "]";
  parts.reason = error.what();
  parts.document = static_cast<std::int64_t>(place);
  return Error(std::move(parts));
}

/// The keyword arguments of a call, of which each names the field that it fills. None is as if it
/// was not given. What has another type than the field is a TypeError of one line, and so is, in
/// finish(), what no field has taken.
class Keywords {
 public:
  Keywords(std::string call, nb::dict given) : call_(std::move(call)), given_(std::move(given)) {}

  Keywords& take(const char* name, bool& value);
  Keywords& take(const char* name, std::int64_t& value);
  Keywords& take(const char* name, std::uint64_t& value);
  Keywords& take(const char* name, int& value);
  Keywords& take(const char* name, double& value);
  Keywords& take(const char* name, float& value);
  /// A text, or a path.
  Keywords& take(const char* name, std::string& value);
  Keywords& take(const char* name, std::vector<std::string>& values);
  Keywords& take(const char* name, std::vector<std::int64_t>& values);
  template <typename Value>
  Keywords& take(const char* name, std::optional<Value>& value) {
    Value found = {};
    const bool given = has(name);
    take(name, found);
    if (given) value = std::move(found);
    return *this;
  }
  Keywords& take(const char* name, OptionField::Numbers numbers);
  /// A text that is read; what it says of a wrong one begins with the name.
  Keywords& take(const char* name, const OptionField::Text& text);
  Keywords& take(const char* name, const OptionField::Whole& number);
  /// False is as if it was not given.
  Keywords& take(const char* name, const OptionField::Flag& flag);
  /// A flag that says the contrary of the field.
  Keywords& take_not(const char* name, bool& value);
  /// Whether an argument is there, and neither None nor False.
  bool is_set(const std::string& name) const;
  /// The argument itself, or None.
  nb::object take_object(const char* name);
  /// Arguments that no field has taken so far, as a dict.
  nb::dict rest() const;
  /// Throws TypeError when there are any.
  void finish() const;

 private:
  bool has(const char* name) const;
  Keywords& know(const char* name) {
    known_.emplace_back(name);
    return *this;
  }
  /// The value of an argument, null where it is not given; the name is known from then on.
  nb::handle find(const char* name);
  [[noreturn]] void refuse(const char* name, const char* expected, nb::handle found) const;

  std::string call_;
  nb::dict given_;
  std::vector<std::string> known_;
};

/// Takes each option of a list by its name. Throws Error for two that exclude each other.
void take_fields(Keywords& keywords, const OptionFields& fields);

/// dtype, threads and adapter; nothing else.
LoadOptions load_options(const Options& given);

}  // namespace longformer
