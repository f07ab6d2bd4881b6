/* Cluster view: tables of nodes as several nodes of one cluster have them, made of a description. For tests of cluster/. */
#ifndef KELVIN_TESTS_CLUSTER_VIEW_H
#define KELVIN_TESTS_CLUSTER_VIEW_H

#include "cluster/members.h"

/* A line for each node: its letter, which is its ID 40 times, its role, its epoch, and its slots: "a master 3 0-99 200\nb slave-of-a\n"; the first
 * one is this node. The current epoch is the largest one. */
struct members *cluster_view_create(const char *description);

/* The node with this letter; it must be there. */
struct node *cluster_view_node(const struct members *members, char letter);
struct node_id cluster_view_id(char letter);

/* The ranges as a set: "0-99 200". */
struct slots cluster_view_slots(const char *ranges);

/* The letter of the owner of a slot; '-': none. */
char cluster_view_owner(const struct members *members, unsigned slot);

#endif
