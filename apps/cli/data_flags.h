// The options that verbs over data sets share.
#pragma once

#include <CLI/App.hpp>

#include "longformer/dataset.h"
#include "longformer/evaluation.h"

namespace longformer::cli {

/// How the files of a data set are read. `data` must live as long as the verb.
void add_data_options(CLI::App& verb, DataOptions& data);

/// Options for plain text without labels.
void add_text_options(CLI::App& verb, DataOptions& data);

/// How documents are read for coreference; for training also what a new head is like.
enum class CoreferenceUse { training, using_it };
void add_coreference(CLI::App& verb, CoreferenceOptions& options, CoreferenceUse use);

/// Questions over paragraphs: what losses weigh, or how they are answered.
void add_multi_hop_losses(CLI::App& verb, MultiHopOptions& options);
void add_evidence(CLI::App& verb, MultiHopOptions& options);

/// Options of learning vectors of texts.
void add_embedding_training(CLI::App& verb, EmbeddingTrainingOptions& options);

/// How TriviaQA is read; for training also what is learned of it.
void add_trivia(CLI::App& verb, TriviaOptions& options, bool for_training);

/// Which tokens a masked LM has to guess, and how text is packed into rows.
void add_masking(CLI::App& verb, MaskingOptions& masking);

}  // namespace longformer::cli
