// The native half of the Python package: the public headers over contiguous arrays. Shapes and
// types that Python users may vary are sorted out in longformer_cpp/__init__.py.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/attention.h"
#include "longformer/convert.h"
#include "longformer/error.h"
#include "longformer/gradients.h"
#include "longformer/hub.h"
#include "longformer/tokenizer.h"
#include "model.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

using Floats = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
/// The bytes of a str, which live as long as it does. Raises UnicodeEncodeError for lone
/// surrogates.
std::string_view utf8(const nb::str& text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<std::size_t>(size)};
}

/// Labels, values, starts, ends, candidates of one document.
using Target = std::tuple<std::vector<std::int32_t>, std::vector<float>, std::vector<std::int64_t>,
                          std::vector<std::int64_t>, std::vector<std::int64_t>>;
using Gradients = std::vector<std::tuple<std::string, FloatArray>>;

class PythonGradientModel {
 public:
  PythonGradientModel(const std::string& folder, const LoadOptions& options)
      : model_(GradientModel::load(find_model(folder), options)) {}

  std::tuple<double, Gradients> loss_and_gradients(const std::vector<Document>& documents,
                                                   const std::vector<Target>& targets,
                                                   const std::vector<std::int64_t>& choices) {
    std::vector<DocumentInput> inputs;
    for (const Document& document : documents) inputs.push_back(input_of(document));
    std::vector<DocumentTarget> wanted;
    for (const Target& target : targets) {
      wanted.push_back(
          std::apply([](const auto&... fields) { return DocumentTarget{fields...}; }, target));
    }
    LossGradients result;
    {
      nb::gil_scoped_release release;
      std::lock_guard lock(mutex_);
      result = model_.loss_and_gradients(inputs, wanted, choices);
    }
    Gradients gradients;
    for (NamedGradient& gradient : result.gradients) {
      const std::vector<std::size_t> shape(gradient.shape.begin(), gradient.shape.end());
      gradients.emplace_back(std::move(gradient.name), array_of(std::move(gradient.values), shape));
    }
    return {result.loss, std::move(gradients)};
  }

 private:
  GradientModel model_;
  std::mutex mutex_;
};

Encoding encode(const Tokenizer& tokenizer, const nb::str& text, const std::optional<nb::str>& pair,
                bool add_special_tokens, std::optional<std::int64_t> max_length) {
  const EncodeOptions options{.add_special_tokens = add_special_tokens, .max_length = max_length};
  const std::string_view first = utf8(text);
  const std::optional<std::string_view> second = pair ? std::optional(utf8(*pair)) : std::nullopt;
  nb::gil_scoped_release release;
  return second ? tokenizer.encode_pair(first, *second, options) : tokenizer.encode(first, options);
}

FloatArray attend(const Floats& q, const Floats& k, const Floats& v, std::int64_t window,
                  std::vector<std::int64_t> dilation, bool causal,
                  std::vector<std::int64_t> global_positions, std::string backend) {
  const BandAttentionOptions options{.window = window,
                                     .dilation = std::move(dilation),
                                     .causal = causal,
                                     .global_positions = std::move(global_positions),
                                     .backend = std::move(backend)};
  std::vector<float> result;
  {
    nb::gil_scoped_release release;
    const auto values = [](const Floats& array) { return std::span(array.data(), array.size()); };
    result = band_attention(values(q), values(k), values(v), static_cast<std::int64_t>(q.shape(0)),
                            static_cast<std::int64_t>(q.shape(2)), options);
  }
  return array_of(std::move(result), {q.shape(0), q.shape(1), q.shape(2)});
}

void bind_gradients(nb::module_& module) {
  nb::class_<PythonGradientModel>(module, "GradientModel")
      .def(
          "__init__",
          [](PythonGradientModel* self, const std::string& folder, std::string dtype, int threads,
             std::string adapter) {
            nb::gil_scoped_release release;
            new (self) PythonGradientModel(
                folder,
                {.dtype = std::move(dtype), .threads = threads, .adapter = std::move(adapter)});
          },
          "folder"_a, "dtype"_a, "threads"_a, "adapter"_a)
      .def("loss_and_gradients", &PythonGradientModel::loss_and_gradients, "documents"_a,
           "targets"_a, "choices"_a);
}

void bind_model(nb::module_& module) {
  nb::class_<PythonModel>(module, "Model")
      .def(
          "__init__",
          [](PythonModel* self, const std::string& folder, std::string dtype, int threads,
             std::string adapter) {
            new (self) PythonModel(folder, std::move(dtype), threads, std::move(adapter));
          },
          "folder"_a, "dtype"_a, "threads"_a, "adapter"_a)
      .def("forward", &PythonModel::forward, "documents"_a, "hidden_states"_a, "attentions"_a)
      .def("masked_lm_logits", &PythonModel::masked_lm_logits, "document"_a)
      .def("default_global_attention_mask", &PythonModel::default_global_attention_mask, "ids"_a)
      .def_prop_ro("model_type", [](const PythonModel& self) { return self.info().model_type; })
      .def_prop_ro("windows", [](const PythonModel& self) { return self.info().windows; })
      .def_prop_ro("hidden_size", [](const PythonModel& self) { return self.info().hidden_size; })
      .def_prop_ro("vocabulary_size",
                   [](const PythonModel& self) { return self.info().vocabulary_size; })
      .def_prop_ro("max_tokens", [](const PythonModel& self) { return self.info().max_tokens; })
      .def_prop_ro("head", [](const PythonModel& self) { return self.info().head; })
      .def_prop_ro("labels", [](const PythonModel& self) { return self.info().labels; })
      .def_prop_ro("problem_type", [](const PythonModel& self) { return self.info().problem_type; })
      .def_prop_ro("has_masked_lm_head",
                   [](const PythonModel& self) { return self.info().has_masked_lm_head; });
}

void bind_tokenizer(nb::module_& module) {
  nb::class_<Encoding>(module, "Encoding")
      .def_ro("ids", &Encoding::ids)
      .def_prop_ro("offsets",
                   [](const Encoding& self) {
                     std::vector<std::tuple<std::int64_t, std::int64_t>> offsets;
                     for (const auto& [begin, end] : self.offsets) offsets.emplace_back(begin, end);
                     return offsets;
                   })
      .def_ro("type_ids", &Encoding::type_ids)
      .def_prop_ro("special_tokens_mask",
                   [](const Encoding& self) {
                     return std::vector<int>(self.special_tokens_mask.begin(),
                                             self.special_tokens_mask.end());
                   })
      .def_prop_ro("sequence_ids",
                   [](const Encoding& self) {
                     std::vector<std::optional<int>> sequences;
                     for (const std::int8_t id : self.sequence_ids) {
                       sequences.push_back(id < 0 ? std::nullopt : std::optional<int>(id));
                     }
                     return sequences;
                   })
      .def_ro("truncated", &Encoding::truncated);
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def_static(
          "load", [](const std::string& folder) { return Tokenizer::load(find_model(folder)); },
          "folder"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("encode", &encode, "text"_a, "pair"_a.none(), "add_special_tokens"_a,
           "max_length"_a.none())
      .def(
          "decode",
          [](const Tokenizer& self, const Integers& ids, bool skip_special_tokens) {
            return self.decode(span_of(ids), skip_special_tokens);
          },
          "ids"_a, "skip_special_tokens"_a)
      .def_prop_ro("vocabulary_size", &Tokenizer::vocabulary_size)
      .def_prop_ro("kind", &Tokenizer::kind);
}

NB_MODULE(_native, module) {
  module.attr("version") = LONGFORMER_VERSION;
  nb::exception<Error>(module, "Error", PyExc_RuntimeError);
  bind_model(module);
  bind_gradients(module);
  bind_generation(module);
  bind_multi_hop(module);
  bind_tasks(module);
  bind_tokenizer(module);
  nb::class_<ConvertOptions>(module, "ConvertOptions")
      .def(nb::init<>())
      .def_rw("max_positions", &ConvertOptions::max_positions)
      .def_rw("windows", &ConvertOptions::windows)
      .def_rw("format", &ConvertOptions::format)
      .def_rw("dtype", &ConvertOptions::dtype)
      .def_rw("overwrite", &ConvertOptions::overwrite);
  module.def(
      "convert",
      [](const std::string& source, const std::string& target, ConvertOptions options) {
        Notes notes;
        options.note = notes.collector();
        {
          nb::gil_scoped_release release;
          convert(find_model(source), target, options);
        }
        Notes::warn(notes.take());
      },
      "source"_a, "target"_a, "options"_a);
  module.def("band_attention", &attend, "q"_a, "k"_a, "v"_a, "window"_a, "dilation"_a, "causal"_a,
             "global_positions"_a, "backend"_a);
}

}  // namespace
}  // namespace longformer
