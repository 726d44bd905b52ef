// Data sets of examples with labels: how their files are read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "longformer/coreference_options.h"
#include "longformer/embedding_training_options.h"
#include "longformer/multi_hop_options.h"
#include "longformer/retrieval_options.h"
#include "longformer/text_encoding.h"
#include "longformer/trivia_options.h"

namespace longformer {

class KeptInputs;

struct DataOptions {
  /// "jsonl", "json" (a list of objects, SQuAD, TriviaQA, WikiHop), "csv", "tsv", "fasttext",
  /// "imdb", "hyperpartisan", "conll", "text" or "lines"; empty to find out from name and beginning
  /// of the file.
  std::string format = {};
  /// Fields of objects and columns.
  std::string text_field = "text", pair_field = "text_pair";
  /// Empty: "label" or "labels"; for tokens also "ner_tags" or "tags"; for choices also "answer".
  /// CoNLL columns have numbers from 1, as text_field may be.
  std::string label_field = {};
  /// Classification: "single_label_classification", "multi_label_classification" or "regression";
  /// empty: that of the model's head, else found out from the labels.
  std::string problem_type = {};
  /// Names of the columns of a CSV or TSV file without a header.
  std::vector<std::string> columns = {};
  /// The character of ASCII between the fields of CSV and TSV files; empty: a comma, or a tab.
  std::string delimiter = {};
  /// Whether CSV and TSV files quote (RFC 4180).
  bool quotes = true;
  TextEncoding encoding = {};
  /// Leave out a broken record and count it; without, it is an Error.
  bool skip_invalid = false;
  CoreferenceOptions coreference = {};
  EmbeddingTrainingOptions embedding = {};
  MultiHopOptions multi_hop = {};
  TriviaOptions trivia = {};
  RetrievalOptions retrieval = {};
  /// The bytes of pipes and standard input ("-"), which can be read once. Empty: every call keeps
  /// them for itself, and reads them whole before it computes.
  std::shared_ptr<KeptInputs> inputs = {};
};

}  // namespace longformer
