#include "tasks/multi_hop/multi_hop_data.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "formats/json.h"
#include "text/normalization.h"

namespace longformer::tasks {
namespace {

/// Members that are written new rather than copied.
constexpr std::array<std::string_view, 6> kKnownMembers = {
    "_id", "id", "question", "answer", "supporting_facts", "context"};

bool is_text(const Json& value) { return value.is_string(); }

Paragraph paragraph_of(const Json& title, const Json& sentences, std::size_t number) {
  require(is_text(title) && sentences.is_array() &&
              std::all_of(sentences.begin(), sentences.end(), is_text),
          "context: paragraph {}: expected a title and a list of sentences, found {} and {}",
          number, formats::shown(title), formats::shown(sentences));
  return {title.get<std::string>(), sentences.get<std::vector<std::string>>()};
}

/// The two lists of an object that has one element of each for every paragraph or fact.
std::pair<const Json&, const Json&> lists_of(const Json& object, std::string_view what,
                                             std::string_view first, std::string_view second) {
  const auto is_list = [&](std::string_view key) {
    return object.contains(key) && object[key].is_array();
  };
  require(is_list(first) && is_list(second) && object[first].size() == object[second].size(),
          "{}: expected lists \"{}\" and \"{}\" of the same length, found {}", what, first, second,
          formats::shown(object));
  return {object[first], object[second]};
}

const Json& required(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  require(found != object.end() && (found->is_array() || found->is_object()),
          "expected paragraphs in the member \"{}\", found {}", key,
          found == object.end() ? "no such member" : formats::shown(*found));
  return *found;
}

std::vector<Paragraph> paragraphs_of(const Json& context) {
  std::vector<Paragraph> paragraphs;
  if (context.is_object()) {
    const auto [titles, sentences] = lists_of(context, "context", "title", "sentences");
    for (std::size_t i = 0; i < titles.size(); ++i) {
      paragraphs.push_back(paragraph_of(titles[i], sentences[i], i + 1));
    }
    return paragraphs;
  }
  for (const Json& one : context) {
    const std::size_t number = paragraphs.size() + 1;
    require(one.is_array() && one.size() == 2,
            "context: paragraph {}: expected [title, [sentence, …]], found {}", number,
            formats::shown(one));
    paragraphs.push_back(paragraph_of(one[0], one[1], number));
  }
  return paragraphs;
}

/// `what` is for messages.
SupportingFact fact_of(const Json& title, const Json& sentence, std::string_view what) {
  require(is_text(title) && sentence.is_number_integer(),
          "{}: expected a title and the number of a sentence, found {} and {}", what,
          formats::shown(title), formats::shown(sentence));
  return {title.get<std::string>(), sentence.get<std::int64_t>()};
}

/// [[title, sentence], …].
std::vector<SupportingFact> listed_facts(const Json& list, std::string_view what) {
  require(list.is_array(), "{}: expected [[title, sentence], …], found {}", what,
          formats::shown(list));
  std::vector<SupportingFact> facts;
  for (const Json& one : list) {
    require(one.is_array() && one.size() == 2, "{}: expected [title, sentence], found {}", what,
            formats::shown(one));
    facts.push_back(fact_of(one[0], one[1], what));
  }
  return facts;
}

std::vector<SupportingFact> facts_of(const Json& value) {
  constexpr const char* kName = "supporting_facts";
  if (!value.is_object()) return listed_facts(value, kName);
  const auto [titles, sentences] = lists_of(value, kName, "title", "sent_id");
  std::vector<SupportingFact> facts;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    facts.push_back(fact_of(titles[i], sentences[i], kName));
  }
  return facts;
}

MultiHopExample example_of(const Json& object, const Record& record) {
  MultiHopExample example;
  example.origin = origin_of(object, record);
  require(!example.origin.id.empty(),
          "expected the id of a question in the member \"_id\" or \"id\", found none");
  const auto has = [&](const char* key) { return object.contains(key) && !object[key].is_null(); };
  example.question = multi_hop_question(object);
  if (has("answer")) example.answer = string_member(object, "answer");
  if (has("supporting_facts")) example.facts = facts_of(object["supporting_facts"]);
  for (const auto& [key, value] : object.items()) {
    const bool is_known =
        std::find(kKnownMembers.begin(), kKnownMembers.end(), key) != kKnownMembers.end();
    if (!is_known) example.others[key] = value;
  }
  return example;
}

}  // namespace

Json facts_json(const std::vector<SupportingFact>& facts) {
  Json list = Json::array();
  for (const SupportingFact& fact : facts) list.push_back(Json::array({fact.title, fact.sentence}));
  return list;
}

bool MultiHopExample::is_fact(const SupportingFact& sentence) const {
  return facts && std::any_of(facts->begin(), facts->end(), [&](const SupportingFact& fact) {
           return fact.sentence == sentence.sentence &&
                  text::are_equivalent(fact.title, sentence.title);
         });
}

bool MultiHopExample::is_evidence(const std::string& title) const {
  return facts && std::any_of(facts->begin(), facts->end(), [&](const SupportingFact& fact) {
           return text::are_equivalent(fact.title, title);
         });
}

std::int64_t MultiHopExample::missing_facts() const {
  if (!facts) return 0;
  return std::count_if(facts->begin(), facts->end(), [&](const SupportingFact& fact) {
    return std::none_of(question.paragraphs.begin(), question.paragraphs.end(),
                        [&](const Paragraph& one) {
                          return text::are_equivalent(one.title, fact.title) &&
                                 fact.sentence >= 0 && fact.sentence < std::ssize(one.sentences);
                        });
  });
}

MultiHopQuestion multi_hop_question(const Json& object) {
  MultiHopQuestion question;
  question.question = string_member(object, "question");
  require(!question.question.empty(), "expected a question, found an empty text");
  question.paragraphs = paragraphs_of(required(object, "context"));
  return question;
}

MultiHopData read_multi_hop(const std::string& path, const DataOptions& given) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "");
  require(options.format == "json" || options.format == "jsonl", OptionName("data.format"),
          "expected json (HotpotQA) or jsonl for questions over paragraphs, found {}",
          options.format);
  MultiHopData data;
  data.path = path;
  read_objects(path, options, data.report, [&](const Json& object, const Record& record) {
    MultiHopExample example = example_of(object, record);
    data.missing_facts += example.missing_facts();
    if (example.question.paragraphs.empty()) ++data.report.empty;
    data.examples.push_back(std::move(example));
  });
  check_any(path, data.examples.size(), data.report, "question");
  return data;
}

Json with_paragraphs(const MultiHopExample& example, std::span<const Index> paragraphs) {
  Json record = {{"_id", example.origin.id}, {"question", example.question.question}};
  if (example.answer) record["answer"] = *example.answer;
  for (const auto& [key, value] : example.others.items()) record[key] = value;
  if (example.facts) record["supporting_facts"] = facts_json(*example.facts);
  Json context = Json::array();
  for (const Index number : paragraphs) {
    const Paragraph& one = example.question.paragraphs[at(number)];
    context.push_back(Json::array({one.title, one.sentences}));
  }
  record["context"] = std::move(context);
  return record;
}

MultiHopPredictions read_multi_hop_predictions(const std::string& path) {
  const Json value = read_whole_json(path, {});
  const auto is_object = [&](const char* key) {
    return value.is_object() && value.contains(key) && value[key].is_object();
  };
  require(is_object("answer") && is_object("sp"),
          "{}: expected {{\"answer\": {{ID: text}}, \"sp\": {{ID: [[title, sentence], …]}}}}, "
          "found {}",
          path, formats::shown(value));
  MultiHopPredictions predictions;
  predictions.answers = answers_by_id(value["answer"], path);
  for (const auto& [id, facts] : value["sp"].items()) {
    predictions.facts[id] = listed_facts(facts, fmt::format("{}: sp: {}", path, id));
  }
  return predictions;
}

std::string text_of(const MultiHopPredictions& predictions) {
  Json facts = Json::object();
  for (const auto& [id, found] : predictions.facts) facts[id] = facts_json(found);
  const Json all = {{"answer", predictions.answers}, {"sp", std::move(facts)}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace longformer::tasks
