// The whole library.
#pragma once

#include "longformer/analysis.h"
#include "longformer/checkpoint.h"
#include "longformer/document.h"
#include "longformer/embedding.h"
#include "longformer/error.h"
#include "longformer/evaluation.h"
#include "longformer/finetuning.h"
#include "longformer/generation.h"
#include "longformer/language_model.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/report.h"
#include "longformer/search.h"
#include "longformer/tasks.h"
#include "longformer/text.h"
#include "longformer/training.h"
