/* Graphs and their nodes; shared by the files that build them and those that run them. */
#ifndef FAC_SRC_SIMCUDA_GRAPH_H
#define FAC_SRC_SIMCUDA_GRAPH_H

#include "simcuda/sim.h"

struct CUgraphNode_st {
    sim_object head;
    CUgraph graph;
    sim_spec spec;
    CUgraphNode *deps;
    size_t n_deps, cap_deps;
    size_t index;   /* in the graph */
    uint64_t visit; /* of the last search */
};

struct CUgraph_st {
    sim_object head;
    CUgraphNode *nodes;
    size_t n, cap;
    bool inner; /* of a node in another graph, which owns it */
};

#endif
