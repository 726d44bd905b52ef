// Questions that a model reads, and what it shall learn of a document.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "longformer/options.h"

namespace longformer {

/// Every choice is read as the pair `context`, `question choice`; without a context as the pair
/// `question`, `choice`; without a question as `context`, `choice`.
struct ChoiceQuestion {
  std::string context;
  std::string question;
  std::vector<std::string> choices;
  /// The texts that the context consists of, where the data say so (WikiHop); a head for candidate
  /// scoring puts a separator at both ends of each.
  std::vector<std::string> supports = {};
};

/// A paragraph with its sentences, in order; one may be empty.
struct Paragraph {
  std::string title;
  std::vector<std::string> sentences;
};

struct MultiHopQuestion {
  std::string question;
  std::vector<Paragraph> paragraphs;
};

/// Words of a document from the first to the last one, counted from 0.
struct WordSpan {
  std::int64_t first = 0, last = 0;
  bool operator==(const WordSpan&) const = default;
  bool operator<(const WordSpan& other) const {
    return first != other.first ? first < other.first : last < other.last;
  }
};

/// Mentions of the same thing, in their order.
using WordCluster = std::vector<WordSpan>;

/// The words of a document that is read for coreference, and what its mentions mean.
struct CoreferenceTarget {
  /// [words]: the tokens with which each begins and ends, counted over all rows of the document.
  std::vector<std::int64_t> first_tokens, last_tokens;
  /// [words]: one behind the last word that a mention may have which begins here.
  std::vector<std::int64_t> mention_ends;
  /// Tokens of which the head keeps a share of spans: those of the text, without special ones but
  /// where the model counts them.
  std::int64_t tokens = 0;
  std::vector<WordCluster> clusters;
};

/// Target of a question over several paragraphs. Tokens are counted over all rows of the question.
struct MultiHopTarget {
  /// 0: a span of the paragraphs, 1: yes, 2: no; −100 does not count.
  std::int32_t answer_type = -100;
  /// Tokens at which a right answer starts and ends; several are right together, none does not
  /// count.
  std::vector<std::int64_t> starts = {}, ends = {};
  /// Place of the mark of each paragraph and sentence, and whether it is evidence: 1 or 0. A mark
  /// without either does not count.
  std::vector<std::int64_t> paragraphs = {}, sentences = {};
  std::vector<float> paragraph_labels = {}, sentence_labels = {};
  /// Weights of the losses of answer spans, types, paragraphs and sentences.
  std::array<double, 4> loss_weights = {1, 1, 1, 1};
};

/// A vector that is made of tokens of one row of an example.
struct VectorTarget {
  /// The tokens that are pooled, counted in the row.
  std::int64_t begin = 0, end = 0;
  /// Texts with the same number are the same: neither is the other's wrong answer.
  std::uint64_t text = 0;
  /// For an anchor, the vector of the example, counted over all its rows, that belongs to it; −1
  /// for all others.
  std::int64_t answer = -1;
  /// For an anchor, the wanted nearness of the two; NaN if unknown.
  float score = std::numeric_limits<float>::quiet_NaN();
  /// The teacher's vector, and what a teacher reads to make it; empty: none.
  std::vector<float> teacher = {};
  std::string teacher_text = {};
};

/// Vectors of a row, and their targets.
struct EmbeddingTarget {
  std::vector<VectorTarget> vectors = {};
  /// Whether a vector is the largest element of each column rather than the mean, whether that is
  /// the sum divided by the root of the number of tokens, and whether vectors have length 1.
  bool takes_largest = false, divides_by_root = false, normalizes = false;
  EmbeddingLoss loss = EmbeddingLoss::contrastive;
  EmbeddingTrainingOptions options = {};
};

/// Wanted output of the head for one document. −100 does not count.
struct DocumentTarget {
  /// Sequence classification: the class, [1]. Token classification and masked LM: one for each
  /// token. Multiple choice and candidate scoring: the number of the right choice, [1], at the
  /// first document of a question.
  std::vector<std::int32_t> labels;
  /// Regression and multi-label classification: one for each label of the model.
  std::vector<float> values;
  /// Question answering: tokens at which a right answer starts and ends. Several are right
  /// together, also those in other rows of one document; none, or one beyond the document: it does
  /// not count.
  std::vector<std::int64_t> starts, ends;
  /// Candidate scoring: the token at which each candidate stands; the same number of them in all
  /// documents of a question.
  std::vector<std::int64_t> candidates = {};
  /// Coreference: at the first row of a document, which has all of its rows.
  std::optional<CoreferenceTarget> coreference = std::nullopt;
  /// Multi-hop question answering: at the first row of a question, which has all of its rows.
  std::optional<MultiHopTarget> multi_hop = std::nullopt;
  /// Vectors of texts: at every row.
  std::optional<EmbeddingTarget> embedding = std::nullopt;
};

}  // namespace longformer
