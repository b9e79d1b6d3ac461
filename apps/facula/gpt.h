/* A small GPT: token and position embeddings, blocks of causal attention and MLP before each of which a layer norm stands,
   a last layer norm and a linear head. */
#ifndef FACULA_APP_GPT_H
#define FACULA_APP_GPT_H

#include <facula/facula.h>

typedef struct gpt_config {
    int64_t vocab, context, dim, heads, layers;
    double dropout;
} gpt_config;

/* Makes the model: weights normal(0, 0.02), the projections that end a block's branches smaller by sqrt(2 layers).
   own: the caller's; NULL on failure. source: Radford et al. 2019 */
fac_module *gpt_new(const gpt_config *config);
/* Checks that a run's checkpoint holds the tensors of a model of this configuration, before memory is asked for one: what a
   file claims about sizes may be anything.
   errors: FORMAT, naming the setting and what the tensors say; as of opening the file */
fac_status gpt_check_checkpoint(const gpt_config *config, const char *dir);
/* tokens [N, T] int64, T <= context -> logits [N, T, vocab]. That is what fac_forward does. */
/* Cross entropy of the model's next-token predictions, in nats; targets as tokens, FAC_IGNORED_TARGET for none. */
fac_tensor *gpt_loss(fac_module *gpt, fac_tensor *tokens, fac_tensor *targets, fac_loss_reduction reduction);
/* The configuration that the model was made with. */
gpt_config gpt_config_of(fac_module *gpt);

#endif
