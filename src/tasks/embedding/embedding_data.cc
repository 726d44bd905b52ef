#include "tasks/embedding/embedding_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "core/words.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

constexpr std::array<std::string_view, 4> kAnchors = {"anchor", "query", "question", "sentence1"};
constexpr std::array<std::string_view, 5> kPositives = {"positive", "pos", "answer", "passage",
                                                        "sentence2"};
constexpr std::array<std::string_view, 4> kScores = {"score", "scores", "label", "labels"};
constexpr std::array<std::string_view, 2> kIds = {"id", "_id"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_negative(std::string_view name) {
  return name == "neg" || name == "negative" || name == "negatives" ||
         name.starts_with("negative_");
}

/// One text, or a list of them.
std::vector<std::string> texts_in(const Json& value, std::string_view name) {
  std::vector<std::string> texts;
  const auto add = [&](const Json& one) {
    require(one.is_string() && !one.get_ref<const std::string&>().empty(),
            "expected a text in the member \"{}\", found {}", name, formats::shown(one));
    texts.push_back(one.get<std::string>());
  };
  if (value.is_array()) {
    for (const Json& one : value) add(one);
  } else {
    add(value);
  }
  return texts;
}

std::vector<float> vector_of(const Json& object) {
  std::vector<float> vector;
  if (!object.contains("vector")) return vector;
  for (const Json& element : list_member(object, "vector")) {
    require(formats::is_finite_number(element),
            "expected numbers in the member \"vector\", found {}", formats::shown(element));
    vector.push_back(element.get<float>());
    require(std::isfinite(vector.back()), "expected finite numbers in the member \"vector\"");
  }
  require(!vector.empty(), "expected numbers in the member \"vector\", found none");
  return vector;
}

/// A number, as tables have it too.
float score_of(const Json& value, std::string_view name) {
  const std::string text = scalar_text(value, name);
  const auto number = finite_number<float>(text);
  require(number.has_value(), "expected a number in the member \"{}\", found {}", name,
          formats::shown(value));
  return *number;
}

MarkedPassage passage_of(const Json& object, std::int64_t characters) {
  require(object.is_object(), "expected passages as objects, found {}", formats::shown(object));
  MarkedPassage passage;
  const auto place = [&](const char* name) {
    const auto found = object.find(name);
    require(found != object.end() && found->is_number_integer(),
            "expected a whole number in the member \"{}\" of a passage, found {}", name,
            found == object.end() ? "none" : formats::shown(*found));
    return found->get<std::int64_t>();
  };
  passage.span = {place("begin"), place("end")};
  require(0 <= passage.span.begin && passage.span.begin < passage.span.end &&
              passage.span.end <= characters,
          "expected a passage within the {} characters of the text, found {} to {}", characters,
          passage.span.begin, passage.span.end);
  for (const char* name : {"query", "queries"}) {
    if (!object.contains(name)) continue;
    for (std::string& text : texts_in(object[name], name)) {
      passage.queries.push_back(std::move(text));
    }
  }
  passage.vector = vector_of(object);
  if (object.contains("target")) passage.target = string_member(object, "target");
  return passage;
}

EmbeddingExample document_of(const Json& object, const Origin& origin) {
  EmbeddingExample example;
  example.origin = origin;
  example.texts = {string_member(object, "text")};
  example.vector = vector_of(object);
  require(!example.texts[0].empty(), "expected a text in the member \"text\", found an empty one");
  if (!object.contains("passages")) return example;
  require(example.vector.empty(),
          "expected the vectors of passages, found one of their whole document");
  const auto characters = std::ssize(character_starts(example.texts[0])) - 1;
  example.passages.emplace();
  for (const Json& one : list_member(object, "passages")) {
    example.passages->push_back(passage_of(one, characters));
  }
  require(!example.passages->empty(), "expected passages in the member \"passages\", found none");
  return example;
}

/// The texts of a record by what they are.
struct Roles {
  std::string anchor;
  std::vector<std::string> positives, negatives;
};

Roles named_roles(const Json& object) {
  Roles roles;
  for (const auto& [name, value] : object.items()) {
    if (is_one_of(kAnchors, name)) {
      require(value.is_string() && roles.anchor.empty(),
              "expected one anchor, found \"{}\" as another one, or as a list", name);
      roles.anchor = texts_in(value, name)[0];
    } else if (is_one_of(kPositives, name)) {
      require(roles.positives.empty(), "expected one member of positives, found also \"{}\"", name);
      roles.positives = texts_in(value, name);
    } else if (is_negative(name)) {
      std::ranges::move(texts_in(value, name), std::back_inserter(roles.negatives));
    }
  }
  require(!roles.positives.empty(),
          "expected a text beside the anchor in \"{}\", found no such member",
          fmt::join(kPositives, "\" or \""));
  return roles;
}

/// The strings in their order.
Roles roles_by_order(const Json& object) {
  Roles roles;
  for (const auto& [name, value] : object.items()) {
    if (is_one_of(kScores, name) || is_one_of(kIds, name)) continue;
    if (!value.is_string() && !value.is_array()) continue;
    for (std::string& text : texts_in(value, name)) {
      auto& list = roles.positives.empty() ? roles.positives : roles.negatives;
      if (roles.anchor.empty()) {
        roles.anchor = std::move(text);
      } else {
        list.push_back(std::move(text));
      }
    }
  }
  require(!roles.positives.empty(), "expected two texts or more, found {}",
          roles.anchor.empty() ? "none" : "one");
  return roles;
}

void read_example(const Json& object, const Record& record, EmbeddingData& data) {
  const Origin origin = origin_of(object, record);
  const auto has = [&](std::string_view name) { return object.contains(name); };
  const bool is_named = std::any_of(kAnchors.begin(), kAnchors.end(), has);
  if (has("text") && !is_named) {
    data.examples.push_back(document_of(object, origin));
    return;
  }
  require(!has("vector"), "expected a vector beside one text alone, found one beside several");
  const Roles roles = is_named ? named_roles(object) : roles_by_order(object);
  std::optional<float> score;
  for (const std::string_view name : kScores) {
    if (has(name) && !score) score = score_of(object.at(std::string(name)), name);
  }
  require(!score || (roles.positives.size() == 1 && roles.negatives.empty()),
          "expected two texts beside a score, found {}",
          1 + roles.positives.size() + roles.negatives.size());
  for (const std::string& positive : roles.positives) {
    EmbeddingExample& example = data.examples.emplace_back();
    example.origin = origin;
    example.score = score;
    example.texts = {roles.anchor, positive};
    example.texts.insert(example.texts.end(), roles.negatives.begin(), roles.negatives.end());
  }
}

}  // namespace

bool EmbeddingData::has_scores() const {
  return std::any_of(examples.begin(), examples.end(),
                     [](const EmbeddingExample& one) { return one.score.has_value(); });
}

bool EmbeddingData::has_pairs() const {
  return std::any_of(examples.begin(), examples.end(), [](const EmbeddingExample& one) {
    if (!one.passages) return one.texts.size() > 1 && !one.score;
    return std::any_of(one.passages->begin(), one.passages->end(),
                       [](const MarkedPassage& passage) { return !passage.queries.empty(); });
  });
}

bool EmbeddingData::has_vectors() const {
  return std::any_of(examples.begin(), examples.end(), [](const EmbeddingExample& one) {
    if (!one.passages) return !one.vector.empty();
    return std::any_of(one.passages->begin(), one.passages->end(),
                       [](const MarkedPassage& passage) { return !passage.vector.empty(); });
  });
}

EmbeddingData read_embedding_data(const std::string& path, const DataOptions& given) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "");
  EmbeddingData data;
  data.path = path;
  read_records(path, options, data.report, [&](const Json& object, const Record& record) {
    read_example(object, record, data);
  });
  check_any(path, data.examples.size(), data.report);
  return data;
}

}  // namespace longformer::tasks
