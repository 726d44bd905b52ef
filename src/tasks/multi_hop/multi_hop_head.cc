#include "tasks/multi_hop/multi_hop_head.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/finite.h"
#include "models/attention/attention.h"
#include "ops/dropout.h"
#include "ops/embedding.h"

namespace longformer::tasks {
namespace {

constexpr Index kAnswerTypes = 3;
constexpr double kScorerDropout = 0.1;

models::LayerSource in_fp32(models::LayerSource source) {
  source.dtype = DType::f32;
  return source;
}

EvidenceScorer scorer(const models::LayerSource& source, const std::string& name, Index width,
                      std::uint64_t place) {
  const models::LayerSource wide = in_fp32(source);
  return {.dense = models::linear(wide, name + ".dense", {width, width},
                                  {.activation = ops::Activation::gelu}),
          .out_proj = models::linear(wide, name + ".out_proj", {1, width}),
          .place = place};
}

/// A question in a batch: its tokens, its rows, and what is to be said of it.
struct AskedQuestion {
  ops::RowRange tokens, rows;
  const MultiHopTarget& target;
};

void check_target(const MultiHopTarget& target, Index tokens) {
  const auto inside = [tokens](const std::vector<std::int64_t>& places) {
    return std::all_of(places.begin(), places.end(),
                       [tokens](Index place) { return place >= 0 && place < tokens; });
  };
  require(inside(target.starts) && inside(target.ends) && inside(target.paragraphs) &&
              inside(target.sentences),
          "loss: expected answers and marks at tokens of the question's {}, found others", tokens);
  require(target.paragraphs.size() == target.paragraph_labels.size() &&
              target.sentences.size() == target.sentence_labels.size(),
          "loss: expected a label for each of {} paragraphs and {} sentences, found {} and {}",
          target.paragraphs.size(), target.sentences.size(), target.paragraph_labels.size(),
          target.sentence_labels.size());
  check_labels({&target.answer_type, 1}, kAnswerTypes);
}

std::vector<AskedQuestion> questions_of(const models::Batch& batch, const Targets& targets) {
  std::vector<AskedQuestion> questions;
  std::size_t row = 0;
  for (const Index rows : targets.questions) {
    require(rows > 0 && row + at(rows) <= targets.documents.size() &&
                targets.documents[row].multi_hop.has_value(),
            "loss: expected what is to be said at the first row of each question, found none");
    const std::size_t end = row + at(rows);
    const ops::RowRange tokens = {batch.starts[row], batch.starts[end]};
    const MultiHopTarget& target = *targets.documents[row].multi_hop;
    check_target(target, tokens.end - tokens.begin);
    questions.push_back({tokens, {static_cast<Index>(row), static_cast<Index>(end)}, target});
    row = end;
  }
  check_count(row, batch.documents(), "rows of questions");
  return questions;
}

std::vector<Index> shifted(const std::vector<std::int64_t>& tokens, Index by) {
  std::vector<Index> rows(tokens.begin(), tokens.end());
  for (Index& row : rows) row += by;
  return rows;
}

/// The part of the loss that is of one question, with gradients of `scale` times it.
class QuestionLoss {
 public:
  QuestionLoss(const ops::Context& context, const AskedQuestion& question, double scale)
      : context_(context), question_(question), scale_(scale) {}

  double span(const Tensor& logits) const {
    double sum = 0;
    Index column = 0;
    for (const auto* right : {&question_.target.starts, &question_.target.ends}) {
      const ops::RowChoice choice = {.range = question_.tokens,
                                     .right = shifted(*right, question_.tokens.begin)};
      const double half = question_.target.loss_weights[0] / 2;
      sum += half * ops::row_cross_entropy(context_, logits, column++, {&choice, 1},
                                           {.scale = scale_ * half})
                        .sum;
    }
    return sum;
  }

  /// `logits` has a row for each of `questions` questions, of which this one has the given number.
  double type(const Tensor& logits, std::size_t questions, std::size_t number) const {
    const double weight = question_.target.loss_weights[1];
    std::vector<std::int32_t> labels(questions, ops::kIgnored);
    labels[number] = question_.target.answer_type;
    return weight * ops::cross_entropy(context_, logits, labels, {.scale = scale_ * weight}).sum;
  }

  double evidence(const Tensor& hidden, const EvidenceScorer& scorer,
                  const std::vector<std::int64_t>& places, std::span<const float> labels,
                  double weight) const {
    if (places.empty() || weight == 0) return 0;
    const Tensor marks =
        ops::select_rows(context_, hidden, shifted(places, question_.tokens.begin));
    const double share = weight / static_cast<double>(places.size());
    return share * ops::binary_cross_entropy(context_, scorer(context_, marks), labels,
                                             {.scale = scale_ * share})
                       .sum;
  }

 private:
  const ops::Context& context_;
  const AskedQuestion& question_;
  double scale_;
};

}  // namespace

std::vector<std::string> multi_hop_layers() {
  return {"qa_outputs",
          "type_classifier",
          "paragraph_scorer.dense",
          "paragraph_scorer.out_proj",
          "sentence_scorer.dense",
          "sentence_scorer.out_proj"};
}

Tensor EvidenceScorer::operator()(const ops::Context& context, const Tensor& x) const {
  const Tensor wide = ops::linear(context, x, dense, DType::f32);
  const Dropout drops = context.dropout(kScorerDropout, place);
  return ops::linear(context, ops::dropout(context, wide, drops), out_proj, DType::f32);
}

MultiHopHead::MultiHopHead(const models::EncoderConfig& config, const models::LayerSource& source)
    : span_(models::linear(source, "qa_outputs", {2, config.last_size()})),
      type_(models::linear(in_fp32(source), "type_classifier", {kAnswerTypes, config.last_size()})),
      paragraph_(scorer(source, "paragraph_scorer", config.last_size(), models::kHeadPlace)),
      sentence_(scorer(source, "sentence_scorer", config.last_size(), models::kHeadDensePlace)) {}

Tensor MultiHopHead::logits(const ops::Context& context, const EncoderStates& states) const {
  return ops::linear(context, states.hidden, span_, DType::f32);
}

ops::LossSum MultiHopHead::loss(const ops::Context& context, const EncoderStates& states,
                                const Targets& targets, const HeadLossOptions& options) const {
  check_count(targets.documents.size(), states.batch.documents(), "rows with targets");
  const std::vector<AskedQuestion> questions = questions_of(states.batch, targets);
  std::vector<ops::RowRange> rows;
  for (const AskedQuestion& question : questions) rows.push_back(question.rows);
  const auto& starts = states.batch.starts;
  const Tensor firsts =
      ops::select_rows(context, states.hidden, std::span(starts).first(starts.size() - 1));
  const Tensor types =
      ops::mean_rows(context, ops::linear(context, firsts, type_, DType::f32), rows);
  const Tensor spans = logits(context, states);
  const auto count = static_cast<double>(questions.size());
  ops::LossSum total = {.sum = 0, .weight = count};
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const MultiHopTarget& target = questions[i].target;
    const QuestionLoss loss(context, questions[i], options.scale / count);
    if (!target.starts.empty() && !target.ends.empty()) total.sum += loss.span(spans);
    total.sum += loss.type(types, questions.size(), i);
    total.sum += loss.evidence(states.hidden, paragraph_, target.paragraphs,
                               target.paragraph_labels, target.loss_weights[2]);
    total.sum += loss.evidence(states.hidden, sentence_, target.sentences, target.sentence_labels,
                               target.loss_weights[3]);
  }
  return total;
}

MultiHopLogits MultiHopHead::score(const ops::Context& context, const Tensor& hidden,
                                   const MultiHopPlaces& places) const {
  MultiHopLogits result;
  const auto take = [](const Tensor& logits) {
    std::vector<float> values = logits.to_floats();
    require(all_finite(values), "expected finite logits from the model, found others");
    return values;
  };
  const std::vector<float> spans = take(ops::linear(context, hidden, span_, DType::f32));
  for (std::size_t i = 0; i < spans.size(); i += 2) {
    result.starts.push_back(spans[i]);
    result.ends.push_back(spans[i + 1]);
  }
  const ops::RowRange rows = {0, std::ssize(places.row_starts)};
  const Tensor firsts = ops::select_rows(context, hidden, places.row_starts);
  const std::vector<float> types =
      take(ops::mean_rows(context, ops::linear(context, firsts, type_, DType::f32), {&rows, 1}));
  std::copy(types.begin(), types.end(), result.types.begin());
  const auto evidence = [&](const EvidenceScorer& scorer, const std::vector<Index>& marks) {
    if (marks.empty()) return std::vector<float>();
    return take(scorer(context, ops::select_rows(context, hidden, marks)));
  };
  result.paragraphs = evidence(paragraph_, places.paragraphs);
  result.sentences = evidence(sentence_, places.sentences);
  return result;
}

}  // namespace longformer::tasks
