#include "keywords.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace longformer {
namespace {

std::string shown(nb::handle value) {
  std::string text = nb::cast<std::string>(nb::repr(value));
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr std::size_t kMost = 60;
  // Cut in front of a byte that begins a character.
  std::size_t end = std::min(text.size(), kMost);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) {
    --end;
  }
  if (end < text.size()) text = text.substr(0, end) + "…";
  return text + " (" + nb::cast<std::string>(nb::str(value.type().attr("__name__"))) + ")";
}

/// An integer of Python or numpy, but no bool; saturated.
std::optional<std::int64_t> integer_of(nb::handle value) {
  if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr())) return std::nullopt;
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    return std::nullopt;
  }
  int overflow = 0;
  const long long found = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow > 0) return std::numeric_limits<std::int64_t>::max();
  if (overflow < 0) return std::numeric_limits<std::int64_t>::min();
  return found;
}

std::optional<double> number_of(nb::handle value) {
  const bool is_number =
      PyFloat_Check(value.ptr()) || nb::hasattr(value, "__float__") || PyIndex_Check(value.ptr());
  if (PyBool_Check(value.ptr()) || !is_number) return std::nullopt;
  const double found = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return found;
}

bool is_list(nb::handle value) {
  return PySequence_Check(value.ptr()) != 0 && !PyUnicode_Check(value.ptr()) &&
         !PyBytes_Check(value.ptr());
}

/// A text, or the name of a file with bytes that are no UTF-8. Throws Error for lone surrogates
/// that stand for no bytes.
std::string bytes_of(const nb::object& text) {
  Py_ssize_t size = 0;
  if (const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size)) {
    return {bytes, static_cast<std::size_t>(size)};
  }
  PyErr_Clear();
  const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!encoded.is_valid()) {
    PyErr_Clear();
    throw Error("expected a text of whole characters, found half of a surrogate pair");
  }
  const auto bytes = nb::borrow<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

}  // namespace

bool Keywords::has(const char* name) const {
  return given_.contains(name) && !nb::object(given_[name]).is_none();
}

nb::handle Keywords::find(const char* name) {
  know(name);
  return has(name) ? nb::handle(nb::object(given_[name])) : nb::handle();
}

void Keywords::refuse(const char* name, const char* expected, nb::handle found) const {
  throw nb::type_error(
      (call_ + ": " + name + ": expected " + expected + ", found " + shown(found)).c_str());
}

Keywords& Keywords::take(const char* name, bool& value) {
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  const std::string type = nb::cast<std::string>(nb::str(found.type().attr("__name__")));
  // numpy's own.
  if (!PyBool_Check(found.ptr()) && type != "bool" && type != "bool_") {
    refuse(name, "True or False", found);
  }
  value = PyObject_IsTrue(found.ptr()) == 1;
  return *this;
}

Keywords& Keywords::take_not(const char* name, bool& value) {
  bool contrary = !value;
  take(name, contrary);
  value = !contrary;
  return *this;
}

Keywords& Keywords::take(const char* name, std::int64_t& value) {
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  const auto number = integer_of(found);
  if (!number) refuse(name, "an integer", found);
  value = *number;
  return *this;
}

Keywords& Keywords::take(const char* name, std::uint64_t& value) {
  auto number = static_cast<std::int64_t>(value);
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  take(name, number);
  if (number < 0) refuse(name, "an integer of at least 0", found);
  value = static_cast<std::uint64_t>(number);
  return *this;
}

Keywords& Keywords::take(const char* name, int& value) {
  std::int64_t number = value;
  take(name, number);
  value = static_cast<int>(std::clamp<std::int64_t>(number, std::numeric_limits<int>::min(),
                                                    std::numeric_limits<int>::max()));
  return *this;
}

Keywords& Keywords::take(const char* name, double& value) {
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  const auto number = number_of(found);
  if (!number) refuse(name, "a number", found);
  value = *number;
  return *this;
}

Keywords& Keywords::take(const char* name, float& value) {
  double number = static_cast<double>(value);
  take(name, number);
  value = static_cast<float>(number);
  return *this;
}

Keywords& Keywords::take(const char* name, std::string& value) {
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  nb::object text = nb::borrow(found);
  if (nb::hasattr(found, "__fspath__")) text = found.attr("__fspath__")();
  if (!PyUnicode_Check(text.ptr())) refuse(name, "a text (str)", found);
  value = bytes_of(text);
  return *this;
}

Keywords& Keywords::take(const char* name, std::vector<std::string>& values) {
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  values.clear();
  if (PyUnicode_Check(found.ptr()) || nb::hasattr(found, "__fspath__")) {
    take(name, values.emplace_back());
    return *this;
  }
  if (!is_list(found)) refuse(name, "a list of texts", found);
  for (const nb::handle one : nb::borrow<nb::sequence>(found)) {
    nb::object text = nb::borrow(one);
    if (nb::hasattr(one, "__fspath__")) text = one.attr("__fspath__")();
    if (!PyUnicode_Check(text.ptr())) refuse(name, "a list of texts", found);
    values.emplace_back(bytes_of(text));
  }
  return *this;
}

Keywords& Keywords::take(const char* name, std::vector<std::int64_t>& values) {
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  values.clear();
  if (const auto number = integer_of(found)) {
    values.push_back(*number);
    return *this;
  }
  if (!is_list(found)) refuse(name, "integers", found);
  for (const nb::handle one : nb::borrow<nb::sequence>(found)) {
    const auto number = integer_of(one);
    if (!number) refuse(name, "integers", found);
    values.push_back(*number);
  }
  return *this;
}

Keywords& Keywords::take(const char* name, OptionField::Numbers numbers) {
  const nb::handle found = find(name);
  if (!found.is_valid()) return *this;
  std::vector<double> values;
  if (!nb::try_cast(found, values) || values.size() != numbers.size()) {
    refuse(name, ("a list of " + std::to_string(numbers.size()) + " numbers").c_str(), found);
  }
  std::copy(values.begin(), values.end(), numbers.begin());
  return *this;
}

Keywords& Keywords::take(const char* name, const OptionField::Text& text) {
  if (!has(name)) return know(name);
  std::string given;
  take(name, given);
  try {
    text.read(given);
  } catch (const Error& error) {
    refuse_option(name, error.reason());
  }
  return *this;
}

Keywords& Keywords::take(const char* name, const OptionField::Whole& number) {
  if (!has(name)) return know(name);
  std::int64_t given = 0;
  take(name, given);
  number.read(given);
  return *this;
}

Keywords& Keywords::take(const char* name, const OptionField::Flag& flag) {
  bool is_raised = false;
  take(name, is_raised);
  if (is_raised) flag.raise();
  return *this;
}

bool Keywords::is_set(const std::string& name) const {
  return has(name.c_str()) && !nb::object(given_[name.c_str()]).is(nb::handle(Py_False));
}

nb::object Keywords::take_object(const char* name) {
  const nb::handle found = find(name);
  return found.is_valid() ? nb::borrow(found) : nb::object(nb::none());
}

nb::dict Keywords::rest() const {
  nb::dict rest;
  for (const auto& [name, value] : given_) {
    const auto text = nb::cast<std::string>(name);
    if (std::find(known_.begin(), known_.end(), text) == known_.end()) rest[name] = value;
  }
  return rest;
}

void Keywords::finish() const {
  const nb::dict left = rest();
  if (left.empty()) return;
  const auto name = nb::cast<std::string>(*left.keys().begin());
  const auto near = nb::cast<std::vector<std::string>>(
      nb::module_::import_("difflib").attr("get_close_matches")(name, known_, 1));
  std::string known = near.empty() ? "" : near[0];
  if (near.empty()) {
    for (const std::string& one : known_) known += (known.empty() ? "" : ", ") + one;
  }
  throw nb::type_error((call_ + ": expected " + (near.empty() ? "one of " : "the keyword ") +
                        known + ", found '" + name + "'")
                           .c_str());
}

void take_fields(Keywords& keywords, const OptionFields& fields) {
  for (const OptionField& field : fields) {
    const char* name = field.name.c_str();
    for (const std::string& other : field.excludes) {
      if (keywords.is_set(field.name) && keywords.is_set(other)) {
        throw Error(other + " and " + field.name + ": expected one of them, found both");
      }
    }
    if (field.is_contrary) {
      keywords.take_not(name, *std::get<bool*>(field.value));
      continue;
    }
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(value)>>) {
            keywords.take(name, *value);
          } else {
            keywords.take(name, value);
          }
        },
        field.value);
    if (field.shorthand.empty()) continue;
    bool is_meant = false;
    keywords.take(field.shorthand.c_str(), is_meant);
    if (is_meant) *std::get<std::string*>(field.value) = field.shorthand;
  }
}

LoadOptions load_options(const Options& given) {
  LoadOptions options;
  Keywords keywords("load", given);
  keywords.take("dtype", options.dtype).take("threads", options.threads);
  keywords.take("adapter", options.adapter).take("task", options.task);
  keywords.take("int8_skip", options.int8_skip).take("device", options.device).finish();
  return options;
}

}  // namespace longformer
