// Attention of the tokens of a text to each other: /attention.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {
namespace {

/// Weights of the keys of each token, summed over heads.
class AttentionMap {
 public:
  void add(const HeadAttention& head) {
    if (heads_++ == 0) {
      first_ = head;
      return;
    }
    std::ranges::transform(head.local, first_.local, first_.local.begin(), std::plus());
    std::ranges::transform(head.global, first_.global, first_.global.begin(), std::plus());
  }

  /// For each token its strongest keys, as pairs of token and weight.
  std::string json(std::int64_t top_k) const {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(first_.tokens));
    std::iota(tokens.begin(), tokens.end(), 0);
    return json_list(tokens, [&](std::string& out, std::int64_t token) {
      auto keys = keys_of(token);
      const auto kept = std::min(std::ssize(keys), static_cast<std::ptrdiff_t>(top_k));
      const auto stronger = [](const auto& a, const auto& b) { return a.second > b.second; };
      std::ranges::partial_sort(keys, keys.begin() + kept, stronger);
      keys.resize(static_cast<std::size_t>(kept));
      out += json_list(keys, [](std::string& pair, const auto& key) {
        fmt::format_to(std::back_inserter(pair), "[{},{:.6g}]", key.first, key.second);
      });
    });
  }

 private:
  std::vector<std::pair<std::int64_t, float>> keys_of(std::int64_t token) const {
    std::vector<std::pair<std::int64_t, float>> keys;
    const auto add = [&](std::int64_t key, float weight) {
      if (key >= 0 && key < first_.tokens && weight > 0) {
        keys.emplace_back(key, weight / static_cast<float>(heads_));
      }
    };
    const auto& globals = first_.global_positions;
    const std::int64_t x = std::ssize(globals), columns = first_.columns;
    const auto own = std::ranges::find(globals, token);
    if (own != globals.end() && !first_.global.empty()) {
      const std::int64_t column = own - globals.begin();
      for (std::int64_t key = 0; key < first_.tokens; ++key) {
        add(key, first_.global[static_cast<std::size_t>(key * x + column)]);
      }
      return keys;
    }
    const float* row = first_.local.data() + token * columns;
    const std::int64_t half = (columns - x - 1) / 2;
    for (std::int64_t c = 0; c < x; ++c) add(globals[static_cast<std::size_t>(c)], row[c]);
    for (std::int64_t c = x; c < columns; ++c) {
      add(first_.dense ? c : token - half + c - x, row[c]);
    }
    return keys;
  }

  HeadAttention first_;
  std::int64_t heads_ = 0;
};

struct Selection {
  std::vector<std::int64_t> layers, heads;
  bool wants_mean = false;
};

Selection selection_of(const Json& body, const ModelInfo& info) {
  Selection chosen;
  const auto read = [&](const char* key, std::int64_t most, std::vector<std::int64_t>& into) {
    const Json* list = member(body, key);
    if (list == nullptr) return false;
    if (!list->is_array() || list->empty()) refuse_type(key, "a list", *list);
    for (const Json& one : *list) {
      if (one == "mean" && std::string_view(key) == "heads") {
        chosen.wants_mean = true;
      } else if (one.is_number_unsigned() &&
                 one.get<std::uint64_t>() < static_cast<std::uint64_t>(most)) {
        into.push_back(one.get<std::int64_t>());
      } else {
        refuse_type(key, fmt::format("numbers from 0 to {}", most - 1), one);
      }
    }
    // A number that is given twice is one.
    std::ranges::sort(into);
    into.erase(std::unique(into.begin(), into.end()), into.end());
    return true;
  };
  if (!read("layers", info.layers, chosen.layers)) chosen.layers = {info.layers - 1};
  if (!read("heads", info.heads, chosen.heads)) chosen.wants_mean = true;
  return chosen;
}

/// The maps of a request as JSON by their names. One or two heads are in memory at a time, as they
/// come layer by layer.
class ChosenMaps {
 public:
  ChosenMaps(const Selection& chosen, std::int64_t top_k) : chosen_(chosen), top_k_(top_k) {}

  void add(const HeadAttention& head) {
    if (std::ranges::find(chosen_.heads, head.head) != chosen_.heads.end()) {
      AttentionMap map;
      map.add(head);
      maps_[fmt::format("{},{}", head.layer, head.head)] = map.json(top_k_);
    }
    if (!chosen_.wants_mean) return;
    if (head.layer != layer_) finish_mean();
    layer_ = head.layer;
    mean_.add(head);
  }

  const std::map<std::string, std::string>& json() {
    finish_mean();
    return maps_;
  }

 private:
  void finish_mean() {
    if (layer_ >= 0) maps_[fmt::format("{},mean", layer_)] = mean_.json(top_k_);
    mean_ = {};
    layer_ = -1;
  }

  const Selection& chosen_;
  const std::int64_t top_k_;
  AttentionMap mean_;
  std::int64_t layer_ = -1;
  std::map<std::string, std::string> maps_;
};

std::vector<ApiField> attention_fields() {
  const Json whole = {{"type", "integer"}, {"minimum", 0}};
  return {{"inputs", optional_schema(text_schema())},
          {"document", optional_schema("string")},
          {"layers", {{"type", "array"}, {"minItems", 1}, {"items", whole}, {"nullable", true}}},
          {"heads",
           {{"type", "array"},
            {"minItems", 1},
            {"items", {{"oneOf", {whole, {{"type", "string"}, {"enum", {"mean"}}}}}}},
            {"nullable", true}}},
          {"top_k", optional_whole_schema(1)},
          model_field()};
}

std::string tokens_json(const Encoding& tokens, const std::string& text,
                        std::span<const std::int32_t> globals, const Tokenizer& tokenizer,
                        const Offsets& offsets) {
  const auto starts = character_starts(text);
  std::vector<std::size_t> places(tokens.ids.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  return json_list(places, [&](std::string& json, std::size_t i) {
    const auto [begin, end] = tokens.offsets[i];
    const bool is_special = tokens.special_tokens_mask[i] != 0;
    const auto from = starts[static_cast<std::size_t>(begin)];
    JsonLine row;
    row.add("text", is_special ? tokenizer.token(tokens.ids[i])
                               : text.substr(from, starts[static_cast<std::size_t>(end)] - from));
    const auto [start, stop] = offsets.of(tokens.offsets[i]);
    row.add("start", start).add("end", stop).add("special", is_special);
    json += row.add("global", !globals.empty() && globals[i] != 0).object();
  });
}

std::optional<HttpResponse> attention(Api& api, ApiCall& call) {
  const ServedModel& served = api.model_for(call, Ability::attend);
  const Model& model = *served.model();
  const std::string text = text_or_document(api, call, "inputs");
  const std::int64_t top_k = whole_of(call.body, "top_k", 1, 4096).value_or(8);
  const Selection chosen = selection_of(call.body, model.info());
  const Encoding tokens = served.tokenizer().encode(text);
  if (std::ssize(tokens.ids) > model.info().max_tokens) {
    refuse(fmt::format("`inputs`: expected at most {} tokens, found {}", model.info().max_tokens,
                       tokens.ids.size()));
  }
  count(call.lengths, std::ssize(tokens.ids), 0, 1);
  std::vector<std::int32_t> globals;
  DocumentInput input{.ids = tokens.ids,
                      .attention_mask = {},
                      .token_type_ids = {},
                      .position_ids = {},
                      .global_attention_mask = {}};
  try {
    globals = model.default_global_attention_mask(tokens.ids);
    input.global_attention_mask = globals;
  } catch (const Error&) {
    // A head whose default needs a separator: the text alone has no global tokens.
    globals.assign(tokens.ids.size(), 0);
    input.global_attention_mask = globals;
  }
  const std::size_t heads = chosen.heads.size() + (chosen.wants_mean ? 1 : 0);
  // A pair of a key and its weight.
  constexpr double kPairBytes = 20;
  check_answer_size(kPairBytes * static_cast<double>(chosen.layers.size() * heads) *
                        static_cast<double>(tokens.ids.size()) *
                        static_cast<double>(std::min(top_k, std::ssize(tokens.ids))),
                    "top_k");
  ChosenMaps maps(chosen, top_k);
  AttentionSelection selection{
      .layers = chosen.layers,
      .heads = chosen.wants_mean ? std::vector<std::int64_t>() : chosen.heads};
  selection.callback = [&](const HeadAttention& head) { maps.add(head); };
  model.attention(input, selection);
  JsonLine all, json;
  for (const auto& [name, map] : maps.json()) all.add_json(name, map);
  json.add_json("tokens", tokens_json(tokens, text, globals, served.tokenizer(),
                                      Offsets(call.request, text)));
  json.add("layers", model.info().layers).add("heads", model.info().heads);
  return json_response(json.add_json("maps", all.object()).object());
}

}  // namespace

std::vector<Route> attention_routes() {
  return {{.method = "POST",
           .path = "/attention",
           .summary = "The strongest keys of each token.",
           .handler = attention,
           .ability = Ability::attend,
           .fields = attention_fields,
           .one_of = {"inputs", "document"}}};
}

}  // namespace longformer::server
