// The native half of the Python package: the public headers over contiguous arrays. Shapes and
// types that Python users may vary are sorted out in longformer_cpp/.

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"
#include "fetched.h"
#include "interruptible.h"
#include "keywords.h"
#include "longformer/analysis.h"
#include "longformer/checkpoint.h"
#include "longformer/error.h"
#include "longformer/options.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

using Floats = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

using WrittenFloats = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

void attend(const Floats& q, const Floats& k, const Floats& v, const WrittenFloats& out,
            const Options& given) {
  BandAttentionOptions options;
  Keywords keywords("band_attention", given);
  keywords.take("window", options.window).take("dilation", options.dilation);
  keywords.take("causal", options.causal).take("global_positions", options.global_positions);
  keywords.take("backend", options.backend).finish();
  without_gil([&] {
    const auto values = [](const auto& array) { return std::span(array.data(), array.size()); };
    band_attention({values(q), values(k), values(v), values(out)},
                   static_cast<std::int64_t>(q.shape(0)), static_cast<std::int64_t>(q.shape(2)),
                   options);
  });
}

void convert_folder(const Path& source, const Path& target, const Options& given) {
  ConvertOptions options;
  Notes notes;
  options.note = notes.collector();
  Keywords keywords("convert", given);
  keywords.take("to", options.target);
  take_fields(keywords, fields(options));
  keywords.finish();
  // The names of weight files are formats, as the program has it.
  if (options.target == "safetensors" || options.target == "bin") {
    options.format = std::exchange(options.target, ConvertOptions().target);
  }
  without_gil([&] {
    options.merge_adapter = fetch_adapter(options.merge_adapter);
    return convert(fetch_model(source.string()), target.string(), options);
  });
  Notes::warn(notes.take());
}

Options folder_info(const Path& folder) {
  const FolderInfo found = inspect(model_folder(folder.string()));
  nb::dict prompts;
  for (const auto& [name, text] : found.prompts) prompts[name.c_str()] = text;
  nb::dict info;
  info["model_type"] = found.model_type;
  info["architecture"] = found.architecture;
  info["parameters"] = found.parameters;
  info["dtype"] = found.dtype;
  info["weights_file"] = found.weights_file;
  info["weights_format"] = found.weights_format;
  info["ignored_buffers"] = nb::cast(found.ignored_buffers);
  info["layers"] = found.layers;
  info["hidden_size"] = found.hidden_size;
  info["heads"] = found.heads;
  info["key_heads"] = found.key_heads;
  info["intermediate_size"] = found.intermediate_size;
  info["activation"] = found.activation;
  info["vocabulary_size"] = found.vocabulary_size;
  info["type_vocabulary_size"] = found.type_vocabulary_size;
  info["max_tokens"] = found.max_tokens;
  info["max_text_tokens"] = found.max_text_tokens;
  info["windows"] = nb::cast(found.windows);
  info["dilations"] = nb::cast(found.dilations);
  info["dilated_heads"] = nb::cast(found.dilated_heads);
  info["receptive_field"] = found.receptive_field;
  info["tokenizer"] = found.tokenizer;
  info["vectors"] = found.vectors;
  info["pooling"] = found.pooling;
  info["normalize"] = found.normalize;
  info["similarity"] = found.similarity;
  info["truncate_dim"] = found.truncate_dim;
  info["embedding_size"] = found.embedding_size;
  info["dense_sizes"] = nb::cast(found.dense_sizes);
  info["max_length"] = found.max_length;
  info["prompts"] = prompts;
  info["default_prompt_name"] = found.default_prompt_name;
  info["passage_context"] = found.passage_context;
  info["has_pooler"] = found.has_pooler;
  info["has_masked_lm_head"] = found.has_masked_lm_head;
  info["head"] = found.head;
  info["num_labels"] = found.labels.size();
  info["labels"] = nb::cast(found.labels);
  info["problem_type"] = found.problem_type;
  info["memory_fp32"] = found.memory_fp32;
  info["memory_bf16"] = found.memory_bf16;
  info["memory_int8"] = found.memory_int8;
  info["unsupported"] = nb::cast(found.unsupported);
  return info;
}

/// Remedies by the names that they have in the library.
nb::tuple names_of(const std::vector<Remedy>& remedies) {
  const auto name = [](Remedy remedy) -> const char* {
    switch (remedy) {
      case Remedy::truncate:
        return "truncate";
      case Remedy::truncate_context:
        return "truncate_context";
      case Remedy::truncate_question:
        return "truncate_question";
      case Remedy::split:
        return "split";
      case Remedy::pooling:
        return "pooling";
      case Remedy::format:
        return "format";
      case Remedy::text_field:
        return "text_field";
      case Remedy::label_field:
        return "label_field";
      case Remedy::id_field:
        return "id_field";
      case Remedy::delimiter:
        return "delimiter";
      case Remedy::columns:
        return "columns";
      case Remedy::quotes:
        return "quotes";
      case Remedy::skip_invalid:
        return "skip_invalid";
      case Remedy::evidence:
        return "evidence";
      case Remedy::teacher:
        return "teacher";
      case Remedy::adapter:
        return "adapter";
      case Remedy::resume_or_overwrite:
        return "resume_or_overwrite";
      case Remedy::fewer_checkpoints:
        return "fewer_checkpoints";
      case Remedy::new_head:
        return "new_head";
    }
    return "";
  };
  nb::list names;
  for (const Remedy remedy : remedies) names.append(name(remedy));
  return nb::tuple(names);
}

/// The error as an object of Python, with its fields.
void set_python_error(const Error& error, nb::handle type) {
  // The names of files in a message may have bytes that are no UTF-8.
  const std::string_view message = error.what();
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  const nb::object thrown = type(text);
  if (!error.option().empty()) thrown.attr("option") = error.option();
  if (error.document()) thrown.attr("document") = *error.document();
  thrown.attr("remedies") = names_of(error.remedies());
  PyErr_SetObject(type.ptr(), thrown.ptr());
}

NB_MODULE(_native, module) {
  // Objects that a daemon thread holds when the process ends are no leak.
  nb::set_leak_warnings(false);
  module.attr("version") = LONGFORMER_VERSION;
  const nb::exception<Error> error(module, "Error", PyExc_RuntimeError);
  // An error that Python code raises has none of the fields.
  error.attr("option") = nb::none();
  error.attr("document") = nb::none();
  error.attr("remedies") = nb::tuple();
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& found) {
          set_python_error(found, static_cast<PyObject*>(type));
        }
      },
      error.ptr());
  bind_described(module);
  bind_model(module);
  bind_tokenizer(module);
  bind_embedding(module);
  bind_reranking(module);
  bind_search(module);
  bind_tasks(module);
  bind_explanation(module);
  bind_multi_hop(module);
  bind_generation(module);
  bind_language_model(module);
  bind_evaluation(module);
  bind_training(module);
  bind_measuring(module);
  bind_hub(module);
  module.def("convert", &convert_folder, "source"_a, "target"_a, "options"_a);
  module.def("info", &folder_info, "folder"_a);
  module.def("find_model", &model_folder, "name"_a);
  module.def("band_attention", &attend, "q"_a, "k"_a, "v"_a, "out"_a, "options"_a);
}

}  // namespace
}  // namespace longformer
