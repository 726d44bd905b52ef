// Language models: text that they draw, and how well they predict.
#include "longformer/language_model.h"

#include <nanobind/stl/array.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "loaded.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

using PythonLanguageModel = Loaded<LanguageModel>;

nb::bytes generate_text(PythonLanguageModel& model, const nb::str& prompt, const Options& given,
                        const nb::object& callback) {
  GenerateOptions options;
  Keywords keywords("generate", given);
  keywords.take("characters", options.characters).take("temperature", options.temperature);
  keywords.take("top_k", options.top_k).take("seed", options.seed).finish();
  if (!(options.temperature >= 0)) refuse_option("temperature", "expected at least 0");
  if (options.top_k < 0) refuse_option("top_k", "expected at least 0");
  const std::string begin(utf8(prompt));
  const std::string text = model.call([&](const LanguageModel& one) {
    std::string drawn;
    one.generate(begin, options, [&](std::string_view next) {
      drawn += next;
      // A model with few numbers computes without loops that ask.
      Interruption::poll();
      if (!callback.is_none()) {
        const nb::gil_scoped_acquire acquire;
        call_python(callback, nb::bytes(next.data(), next.size()));
      }
      return true;
    });
    return drawn;
  });
  return nb::bytes(text.data(), text.size());
}

Options evaluate(PythonLanguageModel& model, const Path& file, const Options& given) {
  LanguageModelEvaluation options;
  Keywords keywords("evaluate", given);
  take_fields(keywords, fields(options));
  keywords.take("losses", options.losses);
  keywords.finish();
  options.data.files = {file.string()};
  const LanguageModelScore score =
      model.call([&](const LanguageModel& one) { return one.evaluate(options); });
  nb::dict metrics;
  metrics["bpc"] = score.bpc;
  metrics["loss"] = score.loss;
  const auto add = [&metrics](const char* name, const std::optional<double>& value) {
    if (value) metrics[name] = *value;
  };
  add("perplexity", score.perplexity);
  add("word_perplexity", score.word_perplexity);
  add("compression_loss", score.compression_loss);
  nb::list shares, losses;
  for (const AttentionShares& layer : score.attention_shares) {
    shares.append(nb::make_tuple(nb::cast(layer.compressed), nb::cast(layer.memory),
                                 nb::cast(layer.segment)));
  }
  for (const SymbolLoss& one : score.losses) losses.append(nb::make_tuple(one.bytes, one.loss));
  nb::dict dict;
  dict["metrics"] = metrics;
  dict["characters"] = score.characters;
  dict["seconds"] = score.seconds;
  dict["attention_shares"] = shares;
  dict["losses"] = losses;
  return dict;
}

/// Tokens, offsets and bytes; last hidden state and logits; hidden states; attention by layer and
/// head.
Record states(PythonLanguageModel& model, const nb::str& text, const Options& given) {
  LanguageModelStateOptions options;
  bool attentions = false;
  Keywords keywords("states", given);
  keywords.take("hidden_states", options.hidden_states).take("attentions", attentions);
  keywords.take("layers", options.layers).take("heads", options.heads).finish();
  std::vector<TextAttention> shown;
  if (attentions) {
    options.attention = [&shown](TextAttention one) { shown.push_back(std::move(one)); };
  }
  const std::string whole(utf8(text));
  LanguageModelStates found =
      model.call([&](const LanguageModel& one) { return one.states(whole, options); });
  const std::size_t n = found.ids.size();
  const auto rows = [n](std::vector<float> values) {
    const std::size_t columns = values.size() / n;
    return array_of(std::move(values), {n, columns});
  };
  nb::list offsets, tokens, hidden, maps;
  for (const CharacterSpan& one : found.offsets) offsets.append(nb::make_tuple(one.begin, one.end));
  for (const std::string& one : found.tokens) tokens.append(nb::bytes(one.data(), one.size()));
  for (std::vector<float>& one : found.hidden_states) hidden.append(rows(std::move(one)));
  for (TextAttention& one : shown) {
    maps.append(nb::make_tuple(
        one.layer, one.head, rows(std::move(one.values)),
        array_of(std::move(one.compressed), {n, static_cast<std::size_t>(one.compressed_rows)})));
  }
  return nb::make_tuple(nb::cast(found.ids), offsets, tokens,
                        rows(std::move(found.last_hidden_state)), rows(std::move(found.logits)),
                        hidden, maps);
}

Options info(const PythonLanguageModel& model) {
  const LanguageModelInfo found = model.object().info();
  nb::dict dict;
  dict["attention"] = found.attention;
  dict["positions"] = found.positions;
  dict["features"] = found.features;
  dict["pattern"] = found.pattern;
  dict["alphabet"] = found.alphabet;
  dict["reads_tokens"] = found.reads_tokens;
  dict["parameters"] = found.parameters;
  dict["layers"] = found.layers;
  dict["windows"] = nb::cast(found.windows);
  dict["dilations"] = nb::cast(found.dilations);
  dict["spans"] = nb::cast(found.spans);
  dict["max_span"] = found.max_span;
  dict["span_ramp"] = found.span_ramp;
  dict["segment_length"] = found.segment_length;
  dict["memory_length"] = found.memory_length;
  dict["compressed_memory_length"] = found.compressed_memory_length;
  dict["compression_rate"] = found.compression_rate;
  dict["receptive_field"] = found.receptive_field;
  dict["state_bytes"] = found.state_bytes;
  return dict;
}

}  // namespace

void bind_language_model(nb::module_& module) {
  nb::class_<PythonLanguageModel>(module, "LanguageModel")
      .def(
          "__init__",
          [](PythonLanguageModel* self, const Path& folder, const Options& options) {
            new (self) PythonLanguageModel(folder.string(), load_options(options));
          },
          "folder"_a, "options"_a)
      .def("generate", &generate_text, "prompt"_a, "options"_a, "callback"_a.none())
      .def("states", &states, "text"_a, "options"_a)
      .def("evaluate", &evaluate, "file"_a, "options"_a)
      .def_prop_ro("info", &info);
}

}  // namespace longformer
