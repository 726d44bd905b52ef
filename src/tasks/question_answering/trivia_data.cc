#include "tasks/question_answering/trivia_data.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/input_file.h"
#include "formats/json.h"
#include "tasks/question_answering/answer_matching.h"

namespace longformer::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBeginning = std::size_t{1} << 22;

bool has_key(std::string_view beginning, std::string_view key) {
  return beginning.find(fmt::format("\"{}\"", key)) != std::string_view::npos;
}

/// A member of an object that may be missing, or null.
const Json* optional_member(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool bool_member(const Json& object, const std::string& key) {
  const Json* value = optional_member(object, key);
  require(value != nullptr && value->is_boolean(),
          "expected true or false in the member \"{}\", found {}", key,
          value == nullptr ? "none" : formats::shown(*value));
  return value->get<bool>();
}

std::vector<std::string> strings_of(const Json& list, const std::string& key) {
  require(list.is_array(), "expected a list in the member \"{}\", found {}", key,
          formats::shown(list));
  std::vector<std::string> strings;
  for (const Json& value : list) {
    require(value.is_string(), "expected a list of strings in the member \"{}\", found {} in it",
            key, formats::shown(value));
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

/// Answers that the evaluation takes as right.
std::vector<std::string> right_answers(const Json& answer) {
  require(answer.is_object(), "expected an object in the member \"Answer\", found {}",
          formats::shown(answer));
  std::vector<std::string> right;
  if (const Json* aliases = optional_member(answer, "NormalizedAliases")) {
    right = strings_of(*aliases, "NormalizedAliases");
  } else {
    for (const std::string& alias : strings_of(list_member(answer, "Aliases"), "Aliases")) {
      right.push_back(normalized_trivia_answer(alias));
    }
  }
  if (const Json* people = optional_member(answer, "HumanAnswers")) {
    for (const std::string& said : strings_of(*people, "HumanAnswers")) {
      right.push_back(normalized_trivia_answer(said));
    }
  }
  require(!right.empty(), "expected at least one answer in \"NormalizedAliases\", found none");
  return right;
}

/// The file of a document in a folder that it must not leave.
std::string evidence_file(const fs::path& folder, const std::string& name) {
  const fs::path file = fs::path(name).lexically_normal();
  const bool inside = !name.empty() && name.find('\0') == std::string::npos && file.is_relative() &&
                      *file.begin() != ".." && file.has_filename() && file != ".";
  require(inside, "expected a file inside the folder of evidence as \"Filename\", found {}",
          formats::quote(name));
  return (folder / file).string();
}

/// Reads the published form.
class PublishedReader {
 public:
  PublishedReader(const Json& whole, const DataOptions& options, TriviaData& data)
      : data_(data), options_(options) {
    const std::string& domain = string_member(whole, "Domain");
    require(domain == "Wikipedia" || domain == "Web",
            "{}: expected the Domain \"Wikipedia\" or \"Web\", found {}", data.path,
            formats::quote(domain));
    data_.by_question = domain == "Wikipedia";
    verified_ = whole.contains("VerifiedEval") && bool_member(whole, "VerifiedEval");
    evidence_ = options.trivia.evidence.empty() ? fs::path(data.path).parent_path() / "../evidence"
                                                : fs::path(options.trivia.evidence);
  }

  void read(const Json& records) {
    std::int64_t number = 0;
    for (const Json& record : records) {
      ++number;
      read_record(fmt::format("{}: record {}", data_.path, number), options_, data_.report, [&] {
        require(record.is_object(), "expected an object, found {}", formats::shown(record));
        read_one(record, number);
      });
    }
  }

 private:
  void read_one(const Json& record, std::int64_t number) {
    if (verified_ && !bool_member(record, "QuestionPartOfVerifiedEval")) return;
    auto question = std::make_shared<TriviaQuestion>();
    question->id = string_member(record, "QuestionId");
    std::vector<TriviaExample> examples;
    try {
      question->text = string_member(record, "Question");
      if (const Json* answer = optional_member(record, "Answer")) {
        question->answers = right_answers(*answer);
      }
      add_pages(record, "EntityPages", "wikipedia", examples);
      if (!data_.by_question) add_pages(record, "SearchResults", "web", examples);
      require(!verified_ || !examples.empty(),
              "expected a document that is part of the verified evaluation, found none");
    } catch (const Error& error) {
      fail("question {}: {}", formats::quote(question->id), error.what());
    }
    const bool has_answers = !question->answers.empty();
    data_.has_answers = data_.has_answers || has_answers;
    if (data_.by_question && has_answers) data_.gold[question->id] = question;
    for (TriviaExample& example : examples) {
      example.origin = {number, fmt::format("{}--{}", question->id, example.origin.id)};
      example.question = question;
      example.key = data_.by_question ? question->id : example.origin.id;
      if (!data_.by_question && has_answers) data_.gold[example.key] = question;
      data_.examples.push_back(std::move(example));
    }
  }

  /// The documents of a list of pages; their ids are the names of their files.
  void add_pages(const Json& record, const std::string& list, const char* folder,
                 std::vector<TriviaExample>& examples) const {
    const Json* pages = optional_member(record, list);
    if (pages == nullptr) return;
    for (const Json& page : list_member(record, list)) {
      require(page.is_object(), "expected objects in \"{}\", found {}", list, formats::shown(page));
      if (verified_ && !data_.by_question && !bool_member(page, "DocPartOfVerifiedEval")) continue;
      TriviaExample& example = examples.emplace_back();
      example.origin.id = string_member(page, "Filename");
      example.file = evidence_file(evidence_ / folder, example.origin.id);
    }
  }

  TriviaData& data_;
  const DataOptions& options_;
  bool verified_ = false;
  fs::path evidence_;
};

/// One question of the form of SQuAD.
void add_question(const Json& record, std::int64_t number,
                  const std::shared_ptr<const std::string>& context, TriviaData& data) {
  require(record.is_object(), "expected an object, found {}", formats::shown(record));
  TriviaExample example;
  example.origin = {number, string_member(record, "id")};
  auto question = std::make_shared<TriviaQuestion>();
  const std::string& id = example.origin.id;
  question->id =
      record.contains("qid") ? string_member(record, "qid") : id.substr(0, id.find("--"));
  question->text = string_member(record, "question");
  question->answers = strings_of(list_member(record, "aliases"), "aliases");
  data.has_answers = data.has_answers || !question->answers.empty();
  example.key = data.by_question ? question->id : id;
  if (!question->answers.empty()) data.gold[example.key] = question;
  example.question = std::move(question);
  example.text = context;
  data.examples.push_back(std::move(example));
}

/// {"data": [{"paragraphs": [{"context", "qas": [{"id", "qid", "question", "aliases"}]}]}]}.
/// Whether documents of a question belong together is told by the name of the file, as the authors
/// do.
void read_squad_form(const Json& articles, const DataOptions& options, TriviaData& data) {
  const std::string name = fs::path(data.path).filename().string();
  data.by_question =
      name.find("wikipedia") != std::string::npos || name.find("web") == std::string::npos;
  std::int64_t number = 0;
  read_squad(articles, data.path, [&](const Json& paragraph) {
    const auto context = std::make_shared<const std::string>(string_member(paragraph, "context"));
    for (const Json& record : list_member(paragraph, "qas")) {
      ++number;
      read_record(fmt::format("record {}", number), options, data.report,
                  [&] { add_question(record, number, context, data); });
    }
  });
}

}  // namespace

bool is_trivia_data(const std::string& path, const DataOptions& options) {
  if (!fs::is_regular_file(path) && !is_read_once(path)) return false;
  const std::string beginning = read_beginning(path, options, kBeginning);
  if (has_key(beginning, "Data") &&
      (has_key(beginning, "QuestionId") || has_key(beginning, "VerifiedEval"))) {
    return true;
  }
  return has_key(beginning, "paragraphs") && has_key(beginning, "aliases");
}

TriviaData read_trivia(const std::string& path, const DataOptions& options) {
  TriviaData data;
  data.path = path;
  require(fs::is_regular_file(path) || is_read_once(path),
          "{}: expected a file of TriviaQA, found none", path);
  const Json whole = read_whole_json(path, options);
  const auto has_list = [&](const char* key) {
    return whole.is_object() && whole.contains(key) && whole[key].is_array();
  };
  require(has_list("Data") || has_list("data"),
          "{}: expected TriviaQA's {{\"Data\", \"Domain\"}}, or the form of SQuAD with "
          "\"aliases\", found {}",
          path, formats::shown(whole));
  if (has_list("Data")) {
    PublishedReader(whole, options, data).read(whole["Data"]);
  } else {
    read_squad_form(whole["data"], options, data);
  }
  require(!data.examples.empty() || !data.gold.empty(),
          "{}: expected at least one question about a document, found none", path);
  data.report.examples = std::ssize(data.examples);
  return data;
}

std::string text_of(const TriviaExample& example, const DataOptions& options) {
  if (example.text) return *example.text;
  const bool there = fs::is_regular_file(example.file);
  require(there, {Remedy::evidence}, "expected the document {}, found no such file", example.file);
  return read_whole_text(example.file, options);
}

}  // namespace longformer::tasks
