// Common parts of the native module: arrays in and out, and notes as warnings.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "longformer/error.h"
#include "longformer/model.h"

namespace longformer {

namespace nb = nanobind;

using Integers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatArray = nb::ndarray<nb::numpy, float, nb::c_contig>;
/// Types as stubs show them: dict[str, Any], list[str], list[Any], tuple[Any, ...].
using Options = nb::typed<nb::dict, nb::str, nb::any>;
using Texts = nb::typed<nb::list, nb::str>;
using Rows = nb::typed<nb::list, nb::any>;
using Record = nb::typed<nb::tuple, nb::any, nb::ellipsis>;
/// ids, attention_mask, token_type_ids, position_ids, global_attention_mask.
using Document = std::tuple<Integers, std::optional<Integers>, std::optional<Integers>,
                            std::optional<Integers>, std::optional<Integers>>;
/// DocumentInput::edges of each document; no list where none has some.
using EdgeLists = std::vector<std::optional<Integers>>;

/// The bytes of a str, which live as long as it does. Throws Error for lone surrogates.
inline std::string_view utf8(const nb::str& text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    throw Error("expected a text of whole characters, found half of a surrogate pair");
  }
  return {bytes, static_cast<std::size_t>(size)};
}

/// A name of a file as a parameter: Python keeps bytes that are no UTF-8 in a str as surrogates.
struct Path : std::filesystem::path {
  using std::filesystem::path::path;
};

/// Name of a file as a str of Python.
inline nb::str path_text(const std::string& path) {
  PyObject* text =
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

/// Texts of Python, which the package has checked.
inline std::vector<std::string> texts_of(const nb::list& list) {
  std::vector<std::string> texts;
  for (const nb::handle text : list) texts.emplace_back(utf8(nb::borrow<nb::str>(text)));
  return texts;
}

inline std::span<const std::int32_t> span_of(const Integers& values) {
  return {values.data(), values.shape(0)};
}

inline std::span<const std::int32_t> span_of(const std::optional<Integers>& values) {
  return values ? span_of(*values) : std::span<const std::int32_t>();
}

inline DocumentInput input_of(const Document& document) {
  return std::apply([](const auto&... fields) { return DocumentInput{span_of(fields)...}; },
                    document);
}

/// An array that owns the values; nothing is copied.
inline FloatArray array_of(std::vector<float> values, std::span<const std::size_t> shape) {
  auto owned = std::make_unique<std::vector<float>>(std::move(values));
  float* data = owned->data();
  nb::capsule owner(owned.get(), [](void* pointer) noexcept {
    std::unique_ptr<std::vector<float>>(static_cast<std::vector<float>*>(pointer)).reset();
  });
  owned.release();
  return FloatArray(data, shape.size(), shape.data(), owner);
}
inline FloatArray array_of(std::vector<float> values, std::initializer_list<std::size_t> shape) {
  return array_of(std::move(values), std::span(shape.begin(), shape.size()));
}

/// Gathers what the library has to say of weights, for when the GIL is held.
class Notes {
 public:
  std::function<void(const std::string&)> collector() {
    return [this](const std::string& note) {
      // The GIL guards them: a mutex might be locked in a process that a fork makes.
      const nb::gil_scoped_acquire acquire;
      notes_.push_back(note);
    };
  }
  std::vector<std::string> take() { return std::exchange(notes_, {}); }
  /// One RuntimeWarning for each, which may raise.
  static void warn(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) {
      constexpr Py_ssize_t kCallerOfThePackage = 2;
      if (PyErr_WarnEx(PyExc_RuntimeWarning, note.c_str(), kCallerOfThePackage) != 0) {
        throw nb::python_error();
      }
    }
  }

 private:
  std::vector<std::string> notes_;
};

// The parts of the module, one in each file.
void bind_described(nb::module_& module);
void bind_model(nb::module_& module);
void bind_tokenizer(nb::module_& module);
void bind_embedding(nb::module_& module);
void bind_search(nb::module_& module);
void bind_tasks(nb::module_& module);
void bind_explanation(nb::module_& module);
void bind_reranking(nb::module_& module);
void bind_multi_hop(nb::module_& module);
void bind_generation(nb::module_& module);
void bind_language_model(nb::module_& module);
void bind_evaluation(nb::module_& module);
void bind_training(nb::module_& module);
void bind_measuring(nb::module_& module);

}  // namespace longformer

/// Caster like the one of std::filesystem::path, with a type that mypy --strict takes.
template <>
struct nanobind::detail::type_caster<longformer::Path> {
  NB_TYPE_CASTER(longformer::Path, const_name("str | os.PathLike[str]"))

  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
    make_caster<std::filesystem::path> found;
    if (!found.from_python(source, flags, cleanup)) return false;
    value.assign(found.value.native());
    return true;
  }
};
