#include "tasks/question_answering/question_data.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/json.h"

namespace longformer::tasks {
namespace {

/// A document, and where its characters begin, so that answers are checked in constant time.
struct Context {
  explicit Context(std::string document)
      : text(std::make_shared<const std::string>(std::move(document))),
        starts(character_starts(*text)) {}

  std::int64_t character_of(std::size_t byte) const {
    return std::lower_bound(starts.begin(), starts.end(), byte) - starts.begin();
  }

  std::shared_ptr<const std::string> text;
  std::vector<std::size_t> starts;
};

void add_answer(const std::string& text, std::int64_t begin, const Context& context,
                std::vector<GoldAnswer>& answers) {
  require(!text.empty(), "expected an answer with text, found an empty one");
  const auto size = static_cast<std::int64_t>(character_starts(text).size()) - 1;
  const auto characters = static_cast<std::int64_t>(context.starts.size()) - 1;
  std::string found = "the end of the context";
  if (begin >= 0 && begin <= characters) {
    const std::size_t from = context.starts[static_cast<std::size_t>(begin)];
    const std::size_t to =
        context.starts[static_cast<std::size_t>(std::min(begin + size, characters))];
    if (context.text->compare(from, to - from, text) == 0) {
      answers.push_back({text, {begin, begin + size}});
      return;
    }
    if (to > from) found = formats::quote(context.text->substr(from, to - from));
  }
  fail("expected the answer {} at character {} of the context, found {}", formats::quote(text),
       begin, found);
}

/// Wherever the answer stands in the context.
void add_occurrences(const std::string& text, const Context& context,
                     std::vector<GoldAnswer>& answers) {
  require(!text.empty(), "expected an answer with text, found an empty one");
  const auto size = static_cast<std::int64_t>(character_starts(text).size()) - 1;
  std::size_t at = context.text->find(text);
  require(at != std::string::npos, "expected the answer {} in the context, found it nowhere",
          formats::quote(text));
  for (; at != std::string::npos; at = context.text->find(text, at + text.size())) {
    const std::int64_t begin = context.character_of(at);
    answers.push_back({text, {begin, begin + size}});
  }
}

/// A value, or the element of a list.
const Json& element(const Json& value, std::size_t i) {
  return value.is_array() ? value[i] : value;
}

/// {"text", "answer_start"} with a value or a list each.
void add_answers(const Json& object, const Context& context, std::vector<GoldAnswer>& answers) {
  require(object.is_object() && object.contains("text"),
          "expected answers {{\"text\", \"answer_start\"}}, found {}", formats::shown(object));
  const Json& texts = object["text"];
  const std::size_t count = texts.is_array() ? texts.size() : 1;
  const auto starts = object.find("answer_start");
  const bool placed = starts != object.end() && !starts->is_null();
  require(!placed || (starts->is_array() == texts.is_array() &&
                      (!starts->is_array() || starts->size() == count)),
          "expected an answer_start for each of {} answers, found {}", count,
          placed ? formats::shown(*starts) : "");
  for (std::size_t i = 0; i < count; ++i) {
    const Json& text = element(texts, i);
    require(text.is_string(), "expected the text of an answer, found {}", formats::shown(text));
    if (!placed) {
      add_occurrences(text.get<std::string>(), context, answers);
      continue;
    }
    const Json& start = element(*starts, i);
    require(start.is_number_integer(), "expected a character as answer_start, found {}",
            formats::shown(start));
    add_answer(text.get<std::string>(), start.get<std::int64_t>(), context, answers);
  }
}

QuestionExample question_of(const Json& object, const Context& context, const Record& record) {
  QuestionExample example;
  example.origin = origin_of(object, record);
  example.context = context.text;
  example.question = string_member(object, "question");
  const auto impossible = object.find("is_impossible");
  if (impossible != object.end() && impossible->is_boolean() && impossible->get<bool>()) {
    return example;
  }
  const auto answers = object.find("answers");
  require(answers != object.end(),
          "expected answers, found none (an unanswerable question has an "
          "empty list of them)");
  try {
    if (answers->is_array()) {
      for (const Json& answer : *answers) add_answers(answer, context, example.answers);
    } else {
      add_answers(*answers, context, example.answers);
    }
  } catch (const Error& error) {
    if (example.origin.id.empty()) throw;
    fail("question {}: {}", formats::quote(example.origin.id), error.what());
  }
  return example;
}

void add_example(QuestionExample example, QuestionData& data) {
  if (example.answers.empty()) ++data.unanswerable;
  if (example.context->empty()) ++data.report.empty;
  data.examples.push_back(std::move(example));
}

bool is_squad(const Json& value) {
  return value.is_object() && value.contains("data") && value["data"].is_array() &&
         !value["data"].empty() && value["data"][0].is_object() &&
         value["data"][0].contains("paragraphs");
}

}  // namespace

QuestionData read_questions(const std::string& path, const DataOptions& given) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "");
  require(options.format == "json" || options.format == "jsonl", OptionName("data.format"),
          "expected json (SQuAD) or jsonl for question answering, found {}", options.format);
  QuestionData data;
  data.path = path;
  Json whole = options.format == "json" ? json_if_whole(path, options) : Json();
  if (is_squad(whole)) {
    std::int64_t number = 0;
    read_squad(whole["data"], path, [&](const Json& paragraph) {
      const Context context(string_member(paragraph, "context"));
      for (const Json& question : list_member(paragraph, "qas")) {
        ++number;
        read_record(fmt::format("record {}", number), options, data.report, [&] {
          require(question.is_object(), "expected an object, found {}", formats::shown(question));
          const Json id = question.contains("id") ? question["id"] : Json();
          const Record record = {.number = number,
                                 .place = {},
                                 .id_number = id.is_number() ? id.dump() : std::string()};
          add_example(question_of(question, context, record), data);
        });
      }
    });
  } else {
    whole = Json();
    std::optional<Context> context;
    read_objects(path, options, data.report, [&](const Json& object, const Record& record) {
      const std::string& text = string_member(object, "context");
      // Questions about one document usually follow each other.
      if (!context || *context->text != text) context.emplace(text);
      add_example(question_of(object, *context, record), data);
    });
  }
  check_any(path, data.examples.size(), data.report, "question");
  return data;
}

}  // namespace longformer::tasks
