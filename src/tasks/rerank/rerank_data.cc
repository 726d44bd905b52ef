#include "tasks/rerank/rerank_data.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/words.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

constexpr std::array<std::string_view, 4> kQueryKeys = {"query", "question", "anchor", "sentence1"};
constexpr std::array<std::string_view, 5> kTextKeys = {"text", "passage", "document", "answer",
                                                       "sentence2"};
constexpr std::array<std::string_view, 4> kListKeys = {"texts", "passages", "documents", "docs"};
constexpr std::array<std::string_view, 5> kRelevanceKeys = {"label", "labels", "score", "scores",
                                                            "relevance"};
constexpr std::array<std::string_view, 3> kPositiveKeys = {"positive", "positives", "pos"};

/// The member of one of some names; null for none.
const Json* member_named(const Json& object, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const auto found = object.find(std::string(name));
    if (found != object.end() && !is_none(*found)) return &*found;
  }
  return nullptr;
}

std::string judged_text(const Json& value) {
  require(value.is_string() && !value.get_ref<const std::string&>().empty(),
          "expected a text beside the query, found {}", formats::shown(value));
  return value.get<std::string>();
}

float relevance_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0f : 0.0f;
  const auto number = finite_number<float>(scalar_text(value, "relevance"));
  require(number && *number >= 0 && *number <= 1, "expected a relevance from 0 to 1, found {}",
          formats::shown(value));
  return *number;
}

/// Adds a text or each of a list.
void add_texts(const Json& value, float relevance, std::vector<JudgedText>& texts) {
  if (value.is_array()) {
    for (const Json& one : value) texts.push_back({judged_text(one), relevance});
  } else {
    texts.push_back({judged_text(value), relevance});
  }
}

void add_judged_list(const Json& list, const Json* relevances, std::vector<JudgedText>& texts) {
  require(relevances != nullptr && list.is_array() && relevances->is_array() &&
              list.size() == relevances->size(),
          "expected a list of texts and a list of as many relevances, found {} and {}",
          formats::shown(list), relevances == nullptr ? "none" : formats::shown(*relevances));
  for (std::size_t i = 0; i < list.size(); ++i) {
    texts.push_back({judged_text(list[i]), relevance_of((*relevances)[i])});
  }
}

/// Positives and negatives of a record; whether there are any.
bool add_positives_and_negatives(const Json& object, std::vector<JudgedText>& texts) {
  const std::size_t before = texts.size();
  if (const Json* positive = member_named(object, kPositiveKeys)) add_texts(*positive, 1, texts);
  for (const auto& [name, value] : object.items()) {
    const bool is_negative = name == "neg" || name.starts_with("negative");
    if (is_negative && !is_none(value)) add_texts(value, 0, texts);
  }
  return texts.size() > before;
}

/// Gathers records by their queries.
class QueryGatherer {
 public:
  QueryGatherer(RerankData& data, const DataOptions& options) : data_(data), options_(options) {}

  void read(const Json& object, const Record& record) {
    const Json* query = member_named(object, kQueryKeys);
    require(query != nullptr && query->is_string() && !query->get_ref<const std::string&>().empty(),
            "expected a query in the member \"{}\", found {}", fmt::join(kQueryKeys, "\" or \""),
            query == nullptr ? "none" : formats::shown(*query));
    std::vector<JudgedText> texts;
    const bool is_list = read_texts(object, texts);
    require(!texts.empty(),
            "expected a text beside the query in the member \"{}\", \"positive\" or \"negative\", "
            "found none",
            fmt::join(kTextKeys, "\", \""));
    data_.has_lists = data_.has_lists || is_list;
    for (const JudgedText& one : texts) {
      data_.is_binary = data_.is_binary && (one.relevance == 0 || one.relevance == 1);
    }
    const auto [place, is_new] = numbers_.emplace(query->get<std::string>(), data_.examples.size());
    if (is_new) {
      data_.examples.push_back(
          {.origin = origin_of(object, record), .query = place->first, .texts = {}});
    }
    auto& all = data_.examples[place->second].texts;
    std::ranges::move(texts, std::back_inserter(all));
  }

 private:
  /// Whether the record is a list of positives and negatives.
  bool read_texts(const Json& object, std::vector<JudgedText>& texts) const {
    const std::string& field = options_.label_field;
    const std::array<std::string_view, 1> named = {field};
    const Json* relevance = member_named(
        object, field.empty() ? std::span<const std::string_view>(kRelevanceKeys) : named);
    if (const Json* list = member_named(object, kListKeys)) {
      add_judged_list(*list, relevance, texts);
      return false;
    }
    if (const Json* text = member_named(object, kTextKeys)) {
      texts.push_back({judged_text(*text), relevance == nullptr ? 1 : relevance_of(*relevance)});
      if (relevance != nullptr) return false;
    }
    return add_positives_and_negatives(object, texts) || relevance == nullptr;
  }

  RerankData& data_;
  const DataOptions& options_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace

bool RerankExample::has_relevant() const {
  return std::ranges::any_of(texts, [](const JudgedText& one) { return one.relevance > 0; });
}

bool RerankExample::has_irrelevant() const {
  return std::ranges::any_of(texts, [](const JudgedText& one) { return one.relevance == 0; });
}

RerankData read_rerank_data(const std::string& path, const DataOptions& given) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "");
  RerankData data;
  data.path = path;
  QueryGatherer gatherer(data, options);
  read_records(path, options, data.report,
               [&](const Json& object, const Record& record) { gatherer.read(object, record); });
  check_any(path, data.examples.size(), data.report);
  // Records of one query are one example.
  data.report.examples = std::ssize(data.examples);
  return data;
}

}  // namespace longformer::tasks
