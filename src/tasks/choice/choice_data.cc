#include "tasks/choice/choice_data.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "engine/frame/labels.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

std::string text_of(const Json& object, const std::string& key) {
  const auto value = object.find(key);
  if (value == object.end() || is_none(*value)) return "";
  return string_member(object, key);
}

std::vector<std::string> texts_of(const Json& object, const std::string& key) {
  std::vector<std::string> texts;
  for (const Json& text : list_member(object, key)) {
    require(text.is_string(), "expected a list of texts in the member \"{}\", found {} in it", key,
            formats::shown(text));
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

/// Two candidates alike would leave open which one is meant.
void check_unique(const std::vector<std::string>& candidates) {
  std::set<std::string_view> seen;
  for (const std::string& candidate : candidates) {
    require(seen.insert(candidate).second, "expected each candidate once, found {} again",
            formats::quote(candidate));
  }
}

std::string label_key(const Json& object, const DataOptions& options) {
  if (!options.label_field.empty()) return options.label_field;
  return object.contains("answer") && !object.contains("label") ? "answer" : "label";
}

std::int32_t label_of(const Json& object, const std::vector<std::string>& choices,
                      const DataOptions& options) {
  const std::string key = label_key(object, options);
  const auto label = object.find(key);
  const bool is_known = label != object.end() && !is_none(*label);
  if (!is_known && options.label_field.empty() && object.contains("candidates")) return kNoLabel;
  require(is_known, "expected the right choice in the member \"{}\", found none", key);
  if (label->is_string()) {
    const auto found = place_of_label(choices, label->get_ref<const std::string&>());
    require(found.has_value(), "expected one of the {} choices as answer, found {}", choices.size(),
            formats::shown(*label));
    require(std::ranges::count(choices, choices[*found]) == 1,
            "expected an answer that is one of the choices, found {}, which is several of them",
            formats::shown(*label));
    return static_cast<std::int32_t>(*found);
  }
  require(label->is_number_integer() && label->get<std::int64_t>() >= 0 &&
              label->get<std::int64_t>() < static_cast<std::int64_t>(choices.size()),
          "expected the index of one of {} choices in the member \"{}\", found {}", choices.size(),
          key, formats::shown(*label));
  return label->get<std::int32_t>();
}

/// Answers of a file are all texts of choices or all their numbers.
class AnswerKind {
 public:
  void check(const Json& object, const std::string& key, const Record& record) {
    const auto label = object.find(key);
    if (label == object.end() || is_none(*label)) return;
    if (!place_.empty() && label->is_string() != is_text_) {
      fail("expected {} as answer, as in {}, found {}",
           is_text_ ? "the text of a choice" : "the number of a choice", place_,
           formats::shown(*label));
    }
    is_text_ = label->is_string();
    if (place_.empty()) place_ = record.place;
  }

 private:
  bool is_text_ = false;
  /// Place of the first answer.
  std::string place_;
};

/// Answers are known for all questions of a file or, of a test set, for none.
void check_known_alike(const ChoiceExample& example, const ChoiceData& before) {
  if (before.examples.empty()) return;
  if (before.is_answered()) {
    right_choice(example);
    return;
  }
  require(example.label == kNoLabel,
          "expected no right choice, as the questions before have none, found one");
}

}  // namespace

std::int32_t right_choice(const ChoiceExample& example) {
  require(example.label != kNoLabel,
          "expected the right choice in the member \"answer\", found none");
  return example.label;
}

ChoiceQuestion choice_question(const Json& object) {
  ChoiceQuestion question;
  if (object.contains("candidates")) {
    question.question = text_of(object, "query");
    question.choices = texts_of(object, "candidates");
    question.supports = texts_of(object, "supports");
    for (const std::string& support : question.supports) {
      question.context += (question.context.empty() ? "" : "\n") + support;
    }
    return question;
  }
  if (object.contains("ending0")) {
    question.context = text_of(object, "sent1");
    question.question = text_of(object, "sent2");
    for (std::size_t i = 0; object.contains(fmt::format("ending{}", i)); ++i) {
      question.choices.push_back(text_of(object, fmt::format("ending{}", i)));
    }
    return question;
  }
  question.context = text_of(object, "context");
  question.question = text_of(object, "question");
  question.choices = texts_of(object, "choices");
  return question;
}

ChoiceData read_choices(const std::string& path, const DataOptions& given) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "");
  require(options.format == "json" || options.format == "jsonl", OptionName("data.format"),
          "expected json (WikiHop) or jsonl for multiple choice, found {}", options.format);
  ChoiceData data;
  data.path = path;
  AnswerKind kind;
  read_objects(path, options, data.report, [&](const Json& object, const Record& record) {
    ChoiceExample example;
    example.origin = origin_of(object, record);
    example.question = choice_question(object);
    require(!example.question.choices.empty(), "expected at least one choice, found none");
    if (object.contains("candidates")) check_unique(example.question.choices);
    require(!example.question.context.empty() || !example.question.question.empty(),
            "expected a context or a question, found neither");
    example.label = label_of(object, example.question.choices, options);
    kind.check(object, label_key(object, options), record);
    check_known_alike(example, data);
    data.examples.push_back(std::move(example));
  });
  check_any(path, data.examples.size(), data.report, "question");
  return data;
}

}  // namespace longformer::tasks
