#include "tasks/multi_hop/multi_hop_metrics.h"

#include <set>
#include <sstream>
#include <unordered_map>

#include "tasks/question_answering/answer_metrics.h"
#include "text/normalization.h"

namespace longformer::tasks {
namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double harmonic_mean(double precision, double recall) {
  return share(2 * precision * recall, precision + recall);
}

bool is_whole_answer(const std::string& normal) {
  return normal == "yes" || normal == "no" || normal == "noanswer";
}

std::vector<std::string> split(const std::string& normal) {
  std::istringstream stream(normal);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::set<std::string> titles_of(std::span<const SupportingFact> facts) {
  std::set<std::string> titles;
  for (const SupportingFact& fact : facts) titles.insert(text::composed(fact.title));
  return titles;
}

/// The facts by the composed forms of their titles.
std::set<SupportingFact> distinct(std::span<const SupportingFact> facts) {
  std::set<SupportingFact> all;
  for (const SupportingFact& fact : facts) {
    all.insert({text::composed(fact.title), fact.sentence});
  }
  return all;
}

double recall_of(const std::set<std::string>& predicted, const std::set<std::string>& gold) {
  double found = 0;
  for (const std::string& title : gold) found += predicted.contains(title) ? 1 : 0;
  return share(found, static_cast<double>(gold.size()));
}

}  // namespace

PrecisionRecall score_words(const std::string& predicted, const std::string& gold) {
  const std::string found = normalized_answer(predicted), right = normalized_answer(gold);
  PrecisionRecall scores = {.exact_match = found == right ? 1.0 : 0.0};
  if (found != right && (is_whole_answer(found) || is_whole_answer(right))) return scores;
  const std::vector<std::string> words = split(found), right_words = split(right);
  std::unordered_map<std::string, int> left;
  for (const std::string& word : right_words) ++left[word];
  double common = 0;
  for (const std::string& word : words) common += left[word]-- > 0 ? 1 : 0;
  scores.precision = share(common, static_cast<double>(words.size()));
  scores.recall = share(common, static_cast<double>(right_words.size()));
  scores.f1 = harmonic_mean(scores.precision, scores.recall);
  return scores;
}

PrecisionRecall score_facts(std::span<const SupportingFact> predicted,
                            std::span<const SupportingFact> gold) {
  const std::set<SupportingFact> found = distinct(predicted), right = distinct(gold);
  double common = 0;
  for (const SupportingFact& fact : found) common += right.contains(fact) ? 1 : 0;
  PrecisionRecall scores = {.exact_match = found == right ? 1.0 : 0.0};
  scores.precision = share(common, static_cast<double>(found.size()));
  scores.recall = share(common, static_cast<double>(right.size()));
  scores.f1 = harmonic_mean(scores.precision, scores.recall);
  return scores;
}

PrecisionRecall joint_scores(const PrecisionRecall& answer, const PrecisionRecall& facts) {
  PrecisionRecall joint = {.exact_match = answer.exact_match * facts.exact_match};
  joint.precision = answer.precision * facts.precision;
  joint.recall = answer.recall * facts.recall;
  joint.f1 = harmonic_mean(joint.precision, joint.recall);
  return joint;
}

AnswerType answer_type(const std::string& answer) {
  const std::string normal = normalized_answer(answer);
  if (normal == "yes") return AnswerType::yes;
  return normal == "no" ? AnswerType::no : AnswerType::span;
}

void MultiHopCounter::add(const PrecisionRecall& one, PrecisionRecall& sum) {
  sum.exact_match += one.exact_match;
  sum.f1 += one.f1;
  sum.precision += one.precision;
  sum.recall += one.recall;
}

void MultiHopCounter::add(const MultiHopAnswer& predicted, const MultiHopAnswer& gold) {
  ++questions_;
  with_answer_ += gold.answer ? 1 : 0;
  PrecisionRecall answer, facts;
  const bool has_answer = predicted.answer && gold.answer;
  if (has_answer) {
    answer = score_words(*predicted.answer, *gold.answer);
    add(answer, answer_);
    right_types_ += answer_type(*predicted.answer) == answer_type(*gold.answer) ? 1 : 0;
  }
  const bool has_facts = predicted.facts && gold.facts;
  if (has_facts) {
    facts = score_facts(*predicted.facts, *gold.facts);
    add(facts, facts_);
  }
  if (has_answer && has_facts) add(joint_scores(answer, facts), joint_);
  if (!gold.facts || gold.facts->empty()) return;
  ++with_facts_;
  if (has_facts) {
    paragraph_recall_ += recall_of(titles_of(*predicted.facts), titles_of(*gold.facts));
  }
}

std::vector<std::pair<std::string, double>> MultiHopCounter::named() const {
  std::vector<std::pair<std::string, double>> values;
  const auto add_all = [&](const std::string& prefix, const PrecisionRecall& sum) {
    const auto count = static_cast<double>(questions_);
    values.emplace_back(prefix + "f1", share(sum.f1, count));
    values.emplace_back(prefix + "em", share(sum.exact_match, count));
    values.emplace_back(prefix + "prec", share(sum.precision, count));
    values.emplace_back(prefix + "recall", share(sum.recall, count));
  };
  add_all("joint_", joint_);
  add_all("", answer_);
  add_all("sp_", facts_);
  values.emplace_back("paragraph_recall",
                      share(paragraph_recall_, static_cast<double>(with_facts_)));
  values.emplace_back("type_accuracy",
                      share(static_cast<double>(right_types_), static_cast<double>(with_answer_)));
  return values;
}

}  // namespace longformer::tasks
