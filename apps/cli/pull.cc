// longformer pull: models of the Hub, fetched into its cache.
#include <memory>
#include <string>
#include <vector>

#include "fetching.h"
#include "longformer/hub.h"
#include "longformer/report.h"
#include "output.h"
#include "results.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

struct PullFlags {
  std::vector<std::string> names;
  /// --json and --output alone.
  ModelFlags form;
};

void run(const PullFlags& flags, Messages& messages) {
  Results results(flags.form,
                  {"name", "commit", "folder", "files", "bytes", "fetched_files", "fetched_bytes"});
  for (const std::string& name : flags.names) {
    PullReport report(messages);
    const PulledModel model = pull_model(name, report.options());
    if (!results.has_rows()) {
      results.output().write(model.folder + "\n");
      continue;
    }
    JsonLine json;
    json.add("name", name).add("commit", model.commit).add("folder", model.folder);
    json.add("files", model.files).add("bytes", model.bytes);
    json.add("fetched_files", model.fetched_files).add("fetched_bytes", model.fetched_bytes);
    results.add(json);
  }
  results.finish();
}

}  // namespace

void add_pull(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<PullFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "pull",
       .description = "Fetch models of the Hub into its cache, and print their folders.",
       .details =
           "Only the files that this program reads are fetched, several at a time, each checked "
           "by its hash; what is there is not fetched again, and after a break the next pull goes "
           "on. Every other verb fetches an org/name that the cache lacks; pull also asks for a "
           "newer commit. It heeds HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, "
           "https_proxy and no_proxy.",
       .examples = "longformer pull sentence-transformers/all-MiniLM-L6-v2\n"
                   "longformer pull allenai/longformer-base-4096@main --json\n"
                   "HF_ENDPOINT=https://hub.example.org longformer pull org/name"});
  verb.add_option("NAME", flags->names, "org/name, or org/name@revision: a branch, tag or commit")
      ->required()
      ->type_name("");
  add_results(verb, flags->form);
  verb.callback(
      [flags, &action] { action = [flags](Messages& messages) { run(*flags, messages); }; });
}

}  // namespace longformer::cli
