import random
import igraph

random.seed(1)
igraph.set_random_number_generator(random)
graph = igraph.Graph.Barabasi(20000, 4)
rank = graph.pagerank()
cores = graph.coreness()
far = graph.distances(0)[0]
groups = graph.community_label_propagation()
print(max(rank), max(cores), max(far), graph.transitivity_undirected(), len(groups) > 0)
